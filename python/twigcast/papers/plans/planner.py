"""Transform -> plan: taken apart, prepared, built for a way of sharing, rewritten rule by rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from twigcast.errors import OptionError
from twigcast.ir.transform import Transform
from twigcast.papers.plans.build import SHARING, build
from twigcast.papers.plans.facts import Claim, Facts
from twigcast.papers.plans.operators import (
    DupElim,
    Nothing,
    Operator,
    OuterJoinSelect,
    Reference,
    Semijoin,
    walk,
)
from twigcast.papers.plans.parts import Parts, parts_of
from twigcast.papers.plans.rules import RULES, Prepare, Rewrite
from twigcast.schema import Schema

LEVELS = ("none", "query", "query+schema")
_LEVEL_OF = {"query": 1, "schema": 2}


@dataclass(frozen=True, slots=True)
class Plan:
    """``needs_schema``: the plan is sound for valid messages only (SEMANTICS 17)."""

    transform: Transform
    root: Operator
    sharing: str
    needs_schema: bool


class Planner:
    """``off`` names rules that are not to be used."""

    def __init__(
        self,
        sharing: str = "FWR",
        optimize: str = "query+schema",
        schema: Schema | None = None,
        off: Iterable[str] = (),
    ) -> None:
        for name, value, known in (("sharing", sharing, SHARING), ("optimize", optimize, LEVELS)):
            if value not in known:
                raise OptionError(f"bad-{name}", f"{name} cannot be {value!r}", hint="one of: " + ", ".join(known))
        off = frozenset(off)
        names = [rule.name for rule in RULES]
        if unknown := sorted(off.difference(names)):
            raise OptionError("unknown-rule", f"there is no rule {unknown[0]!r}", hint="the rules: " + ", ".join(names))
        self.sharing = sharing
        self.rules = [
            rule for rule in RULES if _LEVEL_OF[rule.level] <= LEVELS.index(optimize) and rule.name not in off
        ]
        self.schema = schema if optimize == "query+schema" else None
        claims = [rule for rule in self.rules if isinstance(rule, Claim)]
        self.facts = Facts(claims, self.schema.graph if self.schema is not None else None)

    def plan(self, transform: Transform) -> Plan:
        if not transform.is_pattern:
            why = "; ".join(dict.fromkeys(reason.text for reason in transform.reasons))
            return Plan(transform, Reference(why), self.sharing, False)
        made = self.prepared(parts_of(transform))
        root = build(transform, made, self.sharing) if isinstance(made, Parts) else made
        for rule in self.rules:
            if isinstance(rule, Rewrite):
                root = rule.apply(root, self.facts)
        return Plan(transform, root, self.sharing, self.schema is not None)

    def prepared(self, parts: Parts) -> Parts | Operator:
        for rule in self.rules:
            if isinstance(rule, Prepare):
                made = rule.apply(parts, self.facts)
                if not isinstance(made, Parts):
                    return made
                parts = made
        return parts


def profile(plans: Iterable[Plan]) -> Counter[str]:
    """How many operators there are of each form: Table 3 of the broker paper."""
    found: Counter[str] = Counter()
    for plan in plans:
        for one in walk(plan.root):
            match one:
                case Semijoin(form=form):
                    found[f"semijoin {form}"] += 1
                case OuterJoinSelect(form=form):
                    found[f"outer join {form}"] += 1
                case DupElim(form=form):
                    found["dupelim"] += 1
                    found[f"dupelim {form}"] += 1
                case Nothing():
                    found["nothing"] += 1
    return found
