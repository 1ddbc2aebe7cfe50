"""A pattern taken apart into what engines see: linear paths, branch points and value predicates (DESIGN.md, idea 2)."""

from __future__ import annotations

from dataclasses import dataclass, field

from twigcast.ir.pattern import (
    And,
    Compare,
    Exists,
    LinearPath,
    Match,
    Node,
    Predicate,
    Slot,
    Step,
    StringValue,
    Twig,
    branch_of,
    constants,
    own_leaves,
    predicate_text,
    uses_position,
)


@dataclass(frozen=True, slots=True)
class BranchPoint:
    """A node with conditions on it; ``path`` leads there, ``/`` is the document."""

    path: str
    branches: int
    positions: bool


@dataclass(frozen=True, slots=True)
class ValueTest:
    """A comparison with a constant; ``path`` leads to what is compared, ``text`` is relative to its branch point."""

    path: str
    text: str
    slot: int


@dataclass(slots=True)
class Decomposition:
    paths: list[str] = field(default_factory=list)
    branch_points: list[BranchPoint] = field(default_factory=list)
    tests: list[ValueTest] = field(default_factory=list)


def decompose(program: Predicate) -> Decomposition:
    """``program`` has slots in place of constants."""
    found = Decomposition()
    leaves = _branches(program)
    if leaves > 1:
        found.branch_points.append(BranchPoint("/", leaves, False))
    _walk(program, (), found)
    found.paths = list(dict.fromkeys(found.paths))
    return found


def _walk(predicate: Predicate, base: tuple[Step, ...], found: Decomposition) -> None:
    for leaf in own_leaves(predicate):
        twig = branch_of(leaf)
        if twig is not None:
            path = _path(_twig(twig, base, found))
            found.paths.append(path)
            if isinstance(leaf, Compare | Match):
                assert isinstance(leaf.const, Slot)
                found.tests.append(ValueTest(path, predicate_text(leaf), leaf.const.index))


def _twig(twig: Twig, base: tuple[Step, ...], found: Decomposition) -> tuple[Step, ...]:
    for i, node in enumerate(twig.nodes):
        base = (*base, node.step)
        if node.filters:
            goes_on = i + 1 < len(twig.nodes)
            branches = goes_on + sum(map(_branches, node.filters))
            positions = any(map(uses_position, node.filters))
            found.branch_points.append(BranchPoint(_path(base), branches, positions))
            for one in node.filters:
                _walk(one, base, found)
    return base


def _branches(predicate: Predicate) -> int:
    twigs = map(branch_of, own_leaves(predicate))
    return sum(twig is not None and len(twig.nodes) > 0 for twig in twigs)


def _path(steps: tuple[Step, ...]) -> str:
    return str(LinearPath(steps)) or "/"


@dataclass(frozen=True, slots=True)
class Star:
    """The commonest pattern: values below one node, compared with constants. The kernel checks all rows of a bucket of
    such a shape at once (shapes/star.rs, whose rules these are)."""

    centre: str
    slots: frozenset[int]


def star_of(program: Predicate) -> Star | None:
    match program:
        case Exists(twig):
            centre = next((i for i, node in enumerate(twig.nodes) if node.filters), None)
            if centre is None or any(_is_positional(node) for node in twig.nodes[centre:]):
                return None
            terms = list(twig.nodes[centre].filters)
            below = twig.nodes[centre + 1 :]
            if below:
                terms.append(Exists(Twig(below)))
            trunk = tuple(node.step for node in twig.nodes[: centre + 1])
        case And() | Compare():
            terms, trunk = [program], ()
        case _:
            return None
    slots: set[int] = set()
    while terms:
        match terms.pop():
            case And(inner):
                terms.extend(inner)
            case Compare(StringValue(twig, False), _, Slot(_, index)) if not any(node.filters for node in twig.nodes):
                slots.add(index)
            case other if constants(other):
                return None
    return Star(_path(trunk), frozenset(slots)) if slots else None


def _is_positional(node: Node) -> bool:
    return any(map(uses_position, node.filters))
