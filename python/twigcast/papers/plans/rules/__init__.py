"""The rules in the order in which they apply; each can be switched off by its name."""

from __future__ import annotations

from twigcast.papers.plans.facts import Claim
from twigcast.papers.plans.rules import (
    binding_dupelim,
    claim1,
    claim2,
    claim3,
    claim4,
    claim5,
    descendants,
    impossible,
    merge_outerjoin,
    merge_semijoin,
    return_dupelim,
    scan_dupelim,
)
from twigcast.papers.plans.rules.rule import Prepare, Rewrite

RULES: tuple[Claim | Prepare | Rewrite, ...] = (
    claim1.RULE,
    claim2.RULE,
    claim3.RULE,
    claim4.RULE,
    claim5.RULE,
    impossible.RULE,
    descendants.RULE,
    binding_dupelim.RULE,
    return_dupelim.RULE,
    merge_semijoin.RULE,
    merge_outerjoin.RULE,
    scan_dupelim.RULE,
)

__all__ = ["RULES", "Claim", "Prepare", "Rewrite"]
