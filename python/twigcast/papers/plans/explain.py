"""A plan as a text tree, the way the paper draws them: results at the top, streams of the matching engine below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twigcast.ir.pattern import predicate_text
from twigcast.papers.plans.operators import (
    DupElim,
    Nothing,
    Operator,
    OuterJoinSelect,
    Reference,
    ReturnSelect,
    Selection,
    Semijoin,
    Stream,
    WhereFilter,
    inputs,
)
from twigcast.papers.plans.planner import Plan


@dataclass(frozen=True, slots=True)
class Drawn:
    """An operator for people: what it is, the claim that justified it, and what it reads."""

    kind: str
    label: str
    form: str | None
    note: str
    inputs: tuple[Drawn, ...]

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        shown: dict[str, Any] = {"operator": self.kind, "label": self.label}
        if self.form is not None:
            shown["form"] = self.form
        if self.note:
            shown["because"] = self.note
        if self.inputs:
            shown["inputs"] = [one.as_dict() for one in self.inputs]
        return shown


def drawn(operator: Operator) -> Drawn:
    kind, label, form = _described(operator)
    return Drawn(kind, label, form, operator.note, tuple(drawn(one) for one in inputs(operator)))


def explain(plan: Plan) -> str:
    """The plan with the claim that justified each choice."""
    lines = [f"PathSharing-{plan.sharing}" + (", for valid messages only" if plan.needs_schema else "")]
    _tree(drawn(plan.root), "", "", lines)
    return "\n".join(lines)


def _tree(one: Drawn, first: str, rest: str, lines: list[str]) -> None:
    lines.append(first + one.label + (f"  ({one.note})" if one.note else ""))
    for at, below in enumerate(one.inputs, 1):
        last = at == len(one.inputs)
        _tree(below, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "), lines)


def _described(operator: Operator) -> tuple[str, str, str | None]:
    """Its name in the paper, its label, and its form if it has several."""
    match operator:
        case Stream(path):
            return "Stream", str(path), None
        case Selection(_, tests):
            return "Selection", f"Selection {'; '.join(map(str, tests))}", None
        case DupElim(_, fields, form):
            on = f"field{'s' * (len(fields) > 1)} {', '.join(map(str, fields))}"
            return "DupElim", f"DupElim on {on}, {form}", form
        case WhereFilter(_, field, predicate):
            return "Where-Filter", f"Where-Filter at field {field}: {predicate_text(predicate)}", None
        case ReturnSelect(_, field, paths):
            label = f"Return-Select at field {field}: {', '.join(path.text for path in paths)}"
            return "Return-Select", label, None
        case Semijoin(_, _, field, form, anti):
            kind = "Anti-semijoin" if anti else "Semijoin"
            return kind, f"{kind} on field {field}, {form}", form
        case OuterJoinSelect(_, _, field, paths, form):
            names = ", ".join(path.text for path in paths)
            return "OuterJoin-Select", f"OuterJoin-Select on field {field}, {form}: {names}", form
        case Nothing():
            return "Nothing", "Nothing", None
        case Reference():
            return "libxml2", "Evaluated by libxml2", None
