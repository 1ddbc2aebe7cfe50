"""A transform taken apart for planning: the binding path, predicate paths, what is left of the where clause, and the
return paths (broker §2.2)."""

from __future__ import annotations

from dataclasses import dataclass

from twigcast.ir.pattern import (
    TRUE,
    And,
    Compare,
    Exists,
    Match,
    Node,
    NormalizeSpace,
    Not,
    Predicate,
    StringLength,
    StringValue,
    Twig,
    Value,
    any_branch,
)
from twigcast.ir.transform import Path, Transform
from twigcast.lang.canon import conj, with_filters

# Semijoins on top of each other; what else a where clause asks is searched for.
MAX_JOINS = 100


@dataclass(frozen=True, slots=True)
class PredicatePath:
    """A condition on the bound node that holds if ``twig`` finds something; with ``anti``, if it finds nothing."""

    twig: Twig
    anti: bool = False


@dataclass(frozen=True, slots=True)
class Parts:
    binding: Twig
    predicates: tuple[PredicatePath, ...]
    rest: Predicate
    where: Predicate
    returns: tuple[tuple[Path, Twig], ...]

    @property
    def field(self) -> int:
        """The binding field."""
        return len(self.binding.nodes)


def parts_of(transform: Transform) -> Parts:
    """Of a transform that tree patterns decide."""
    assert transform.binding.twig is not None
    where = transform.where.predicate if transform.where is not None else TRUE
    assert where is not None
    paths: list[PredicatePath] = []
    rest: list[Predicate] = []
    for term in where.terms if isinstance(where, And) else (where,):
        anti = isinstance(term, Not)
        twig = _path(term.term if isinstance(term, Not) else term)
        if twig is None or len(paths) == MAX_JOINS:
            rest.append(term)
        else:
            paths.append(PredicatePath(twig, anti))
    returns = tuple((path, path.twig) for path in transform.return_paths if path.twig is not None)
    return Parts(transform.binding.twig, tuple(paths), conj(*rest), where, returns)


def _path(term: Predicate) -> Twig | None:
    """A leaf as a predicate path: its branch, with the test of the value as a filter on the last node."""
    twig = any_branch(term)
    if twig is None or not twig.nodes:
        return None
    here: Predicate
    match term:
        case Exists():
            return twig
        case Compare(value, op, const):
            here = Compare(_here(value), op, const)
        case Match(function, value, const):
            of = _here(value)
            assert isinstance(of, StringValue | NormalizeSpace)
            here = Match(function, of, const)
        case _:
            return None
    last = with_filters(twig.nodes[-1], here)
    return None if last is None else Twig((*twig.nodes[:-1], last))


def _here(value: Value) -> Value:
    match value:
        case NormalizeSpace(of):
            inner = _here(of)
            assert isinstance(inner, StringValue)
            return NormalizeSpace(inner)
        case StringLength(of):
            inner = _here(of)
            assert isinstance(inner, StringValue | NormalizeSpace)
            return StringLength(inner)
    return StringValue(Twig())


def extended(binding: Twig, path: Twig) -> tuple[Node, ...]:
    """A relative path as the engine takes it: the binding path prepended (broker §3.2)."""
    return (*binding.nodes, *path.nodes)
