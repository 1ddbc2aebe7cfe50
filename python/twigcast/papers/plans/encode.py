"""Plans as the kernel runs them: operators as flat codes in prefix order, counts before lists, and one program with all
that they speak of (crates/kernel/src/transform/plans/codes.rs)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from twigcast.ir.pattern import And, Exists, LinearPath, Node, Predicate, Step, Twig
from twigcast.papers.plans.operators import (
    DupElim,
    Operator,
    OuterJoinSelect,
    ReturnSelect,
    Selection,
    Semijoin,
    Stream,
    WhereFilter,
    walk,
)
from twigcast.papers.plans.planner import Plan
from twigcast.plan.encode import NotEncodable, encode
from twigcast.plan.slots import slotted
from twigcast.transform.encode import ITSELF, copies_bound_node, making

# What the kernel takes as one plan.
MAX_OPERATORS = 1000


@dataclass(frozen=True, slots=True)
class EncodedPlan:
    """What ``Transforms.add_plan`` of the kernel takes."""

    codes: list[int]
    program: list[int]
    constants: list[str | float]
    making: bytes


def encoded_plan(plan: Plan, code: Callable[[Step], int]) -> EncodedPlan:
    """Raises NotEncodable for what is no plan over streams, or asks for what the kernel has no word for."""
    root = plan.root
    if not isinstance(root, ReturnSelect | OuterJoinSelect) or sum(1 for _ in walk(root)) > MAX_OPERATORS:
        raise NotEncodable
    itself = copies_bound_node(plan.transform)
    made = _Codes([int(itself)])
    made.top(root)
    program, constants = slotted(And(tuple(made.items)))
    paths = [*([ITSELF] if itself else ()), *root.paths]
    return EncodedPlan(made.codes, encode(program, code), constants, making(plan.transform, paths))


@dataclass(slots=True)
class _Codes:
    codes: list[int]
    items: dict[Predicate, int] = field(default_factory=dict)

    def item(self, predicate: Predicate) -> int:
        return self.items.setdefault(predicate, len(self.items))

    def twig(self, twig: Twig) -> int:
        return self.item(Exists(twig))

    def top(self, root: ReturnSelect | OuterJoinSelect) -> None:
        if isinstance(root, ReturnSelect):
            twigs = [path.twig for path in root.paths if path.twig is not None]
            self.codes += (5, root.field, len(twigs), *map(self.twig, twigs))
            self.operator(root.input)
        else:
            self.codes += (6, root.field, int(root.form == "merge"))
            self.operator(root.left)
            self.codes.append(len(root.rights))
            for right in root.rights:
                self.operator(right)

    def operator(self, operator: Operator) -> None:
        match operator:
            case Stream(path):
                self.codes += (0, self.twig(_plain(path)))
            case Selection(below, tests):
                self.codes += (1, len(tests))
                for test in tests:
                    self.codes += (test.field, self.twig(Twig((Node(test.step, test.filters),))))
                self.operator(below)
            case DupElim(below, fields, form):
                self.codes += (2, int(form == "scan"), len(fields), *fields)
                self.operator(below)
            case WhereFilter(below, at, predicate):
                self.codes += (3, at, self.item(predicate))
                self.operator(below)
            case Semijoin(left, right, at, form, anti):
                self.codes += (4, at, int(form == "merge"), int(anti))
                self.operator(left)
                self.operator(right)
            case _:
                raise NotEncodable


def _plain(path: LinearPath) -> Twig:
    return Twig(tuple([Node(step) for step in path.steps]))
