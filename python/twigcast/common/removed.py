"""Options that have moved or are gone: for one release, whoever uses one is told what to use."""

from __future__ import annotations

from collections.abc import Iterable

from twigcast.errors import OptionError

REMOVED = {
    "mode": "twigcast.papers.Engine",
    "predicates": "twigcast.papers.Engine",
    "sharing": "twigcast.papers.Engine",
    "optimize": "twigcast.papers.Engine",
    "share_plans": "twigcast.papers.Engine",
    "no_share_plans": "twigcast.papers.Engine",
    "strategy": "twigcast.papers.Broker",
    "plan": "twigcast.papers.RelationalEngine",
    "unroll": "twigcast.papers.RelationalEngine",
    "buckets": "twigcast.papers.RelationalEngine",
}
"""Options that were those of ``Engine``, ``Broker``, ``twigcast match`` or ``twigcast explain``, and who has them."""


REPLACED = {"max_residual_cost": ("max_query_steps", "max_query_bytes")}
"""Limits that are gone, and those that took their place."""


def replaced_by(name: str) -> str | None:
    """Return what to use in place of a limit that is gone, as a hint; None if it never was one."""
    new = REPLACED.get(name)
    return new and f"use {' and '.join(new)}"


def removed_error(what: str, name: str) -> OptionError | None:
    """Return the error for an option that ``what`` had in an earlier version; None if it never had it."""
    plain = name.removeprefix("--").replace("-", "_")
    if plain in REPLACED:
        hint = "use " + " and ".join("--" + new.replace("_", "-") for new in REPLACED[plain])
        return OptionError("moved-option", f"{what} has no option {name} any more", hint=hint)
    place = REMOVED.get(plain)
    if place is None:
        return None
    text = f"{what} has no option {name} any more: it only serves comparisons, and the answers are the same"
    return OptionError("moved-option", text, hint=f"{place} has it; see docs/papers.md")


def refuse_removed(what: str, options: Iterable[str]) -> None:
    """Raise an error if there are options that ``what`` does not know: TypeError for those that it never knew."""
    for name in options:
        raise removed_error(what, name) or TypeError(f"{what}() got an unexpected keyword argument {name!r}")
