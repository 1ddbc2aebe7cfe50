"""A plan as a text tree, the way the paper draws them: results at the top, streams of the matching engine below."""

from __future__ import annotations

from twigcast.pattern import predicate_text
from twigcast.transform.plan.operators import (
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
from twigcast.transform.plan.planner import Plan


def explain(plan: Plan) -> str:
    """The plan with the claim that justified each choice."""
    lines = [f"PathSharing-{plan.sharing}" + (", for valid messages only" if plan.needs_schema else "")]
    _tree(plan.root, "", "", lines)
    return "\n".join(lines)


def _tree(operator: Operator, first: str, rest: str, lines: list[str]) -> None:
    lines.append(first + _line(operator))
    below = inputs(operator)
    for at, one in enumerate(below, 1):
        last = at == len(below)
        _tree(one, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "), lines)


def _line(operator: Operator) -> str:
    note = f"  ({operator.note})" if operator.note else ""
    match operator:
        case Stream(path):
            return f"{path}{note}"
        case Selection(_, tests):
            return f"Selection {'; '.join(map(str, tests))}{note}"
        case DupElim(_, fields, form):
            return f"DupElim on field{'s' * (len(fields) > 1)} {', '.join(map(str, fields))}, {form}{note}"
        case WhereFilter(_, field, predicate):
            return f"Where-Filter at field {field}: {predicate_text(predicate)}{note}"
        case ReturnSelect(_, field, paths):
            return f"Return-Select at field {field}: {', '.join(path.text for path in paths)}{note}"
        case Semijoin(_, _, field, form, anti):
            return f"{'Anti-semijoin' if anti else 'Semijoin'} on field {field}, {form}{note}"
        case OuterJoinSelect(_, _, field, paths, form):
            return f"OuterJoin-Select on field {field}, {form}: {', '.join(path.text for path in paths)}{note}"
        case Nothing():
            return f"Nothing{note}"
        case Reference():
            return f"Evaluated by libxml2{note}"
