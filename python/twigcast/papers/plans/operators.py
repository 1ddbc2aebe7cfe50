"""The operators of post-processing plans (broker §3): trees over path-tuple streams, as in the paper's figures.

A path-tuple has one field per step of its path; fields are counted from 1, and every stream comes ordered by its last
field. ``form`` is ``merge`` or ``scan`` where the input's order allows it, ``hash`` elsewhere. ``note`` says why an
operator is what it is, or what was left out above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from twigcast.ir.pattern import LinearPath, Node, Predicate, Step, Twig, predicate_text
from twigcast.ir.transform import Path


@dataclass(frozen=True, slots=True)
class Stream:
    """What the shared path matching engine delivers for a path."""

    path: LinearPath
    note: str = ""


@dataclass(frozen=True, slots=True)
class Test:
    """The filters on the node in one field."""

    field: int
    step: Step
    filters: tuple[Predicate, ...]

    def __str__(self) -> str:
        return f"field {self.field}: " + "".join(f"[{predicate_text(one)}]" for one in self.filters)


@dataclass(frozen=True, slots=True)
class Selection:
    input: Operator
    tests: tuple[Test, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class DupElim:
    """One tuple for each value of ``fields``: the binding field, or for a return path that and the return field."""

    input: Operator
    fields: tuple[int, ...]
    form: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class WhereFilter:
    """Tree search below the bound node."""

    input: Operator
    field: int
    predicate: Predicate
    note: str = ""


@dataclass(frozen=True, slots=True)
class ReturnSelect:
    """Tree search for every return path below the bound node."""

    input: Operator
    field: int
    paths: tuple[Path, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Semijoin:
    """Tuples of ``left`` whose binding field occurs in ``right``; ``anti``: does not occur."""

    left: Operator
    right: Operator
    field: int
    form: str
    anti: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class OuterJoinSelect:
    """One group per tuple of ``left``, with a list for each of ``rights``."""

    left: Operator
    rights: tuple[Operator, ...]
    field: int
    paths: tuple[Path, ...]
    form: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Nothing:
    """No valid message has a group."""

    note: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """No tree pattern: libxml2 evaluates it, binding by binding."""

    note: str = ""


Operator: TypeAlias = (
    "Stream | Selection | DupElim | WhereFilter | ReturnSelect | Semijoin | OuterJoinSelect | Nothing | Reference"
)


def inputs(operator: Operator) -> tuple[Operator, ...]:
    match operator:
        case Selection(one) | DupElim(one) | WhereFilter(one) | ReturnSelect(one):
            return (one,)
        case Semijoin(left, right):
            return left, right
        case OuterJoinSelect(left, rights):
            return left, *rights
    return ()


def with_inputs(operator: Operator, new: tuple[Operator, ...]) -> Operator:
    match operator:
        case Selection() | DupElim() | WhereFilter() | ReturnSelect():
            return replace(operator, input=new[0])
        case Semijoin():
            return replace(operator, left=new[0], right=new[1])
        case OuterJoinSelect():
            return replace(operator, left=new[0], rights=new[1:])
    return operator


def rewritten(operator: Operator, change: Callable[[Operator], Operator]) -> Operator:
    """The tree with ``change`` applied to every operator, inputs first."""
    before = inputs(operator)
    after = tuple([rewritten(one, change) for one in before])
    same = all(new is old for new, old in zip(after, before, strict=True))
    return change(operator if same else with_inputs(operator, after))


def noted(operator: Operator, note: str) -> Operator:
    return replace(operator, note=f"{operator.note}; {note}" if operator.note else note)


def walk(operator: Operator) -> Iterator[Operator]:
    yield operator
    for one in inputs(operator):
        yield from walk(one)


def stream_of(operator: Operator) -> Stream:
    """The stream whose tuples an operator passes on: its leftmost."""
    while not isinstance(operator, Stream):
        operator = inputs(operator)[0]
    return operator


def tests_of(nodes: tuple[Node, ...], before: int = 0) -> tuple[Test, ...]:
    """The filters of a trunk that starts after ``before`` fields."""
    return tuple(Test(at, node.step, node.filters) for at, node in enumerate(nodes, before + 1) if node.filters)


def steps_of(twig: Twig) -> tuple[Step, ...]:
    return tuple(node.step for node in twig.nodes)
