"""Patterns that are nothing but paths: the path engine alone decides them.

``/a/b[@x = "1"]`` is the path ``/a/b/@x`` with the value ``"1"`` as one more step, because nothing but existence is
asked of every node on the way; ``or`` is several such paths.
"""

from __future__ import annotations

from dataclasses import dataclass

from twigcast.pattern import And, Compare, Exists, Node, Or, Predicate, Step, StringValue, Twig
from twigcast.plan.slots import Slot


@dataclass(frozen=True, slots=True)
class ValuePath:
    """A path from the document; with ``slot``, to a node whose value equals the constant."""

    steps: tuple[Step, ...]
    slot: Slot | None = None


def linear(predicate: Predicate) -> list[ValuePath] | None:
    """The paths of which any decides the predicate on the document, or None if it takes more than that."""
    found = _below(predicate, ())
    if found is None or not all(path.steps and pathlike(path.steps) for path in found):
        return None
    return found


def _below(predicate: Predicate, base: tuple[Step, ...]) -> list[ValuePath] | None:
    match predicate:
        case Exists(twig):
            return _along(twig, base, None)
        case Compare(StringValue(twig, False), "=", Slot() as slot) if equality_is_a_step(slot):
            return _along(twig, base, slot)
        case Or(terms):
            return _each([_below(term, base) for term in terms])
    return None


def _each(parts: list[list[ValuePath] | None]) -> list[ValuePath] | None:
    """All their paths, if all are paths."""
    found: list[ValuePath] = []
    for part in parts:
        if part is None:
            return None
        found += part
    return found


def _along(twig: Twig, base: tuple[Step, ...], slot: Slot | None) -> list[ValuePath] | None:
    *inner, last = twig.nodes or (None,)
    if last is None:
        return [ValuePath(base, slot)]
    for node in inner:
        if node.filters:
            return None
    return _filtered(last, base + twig.steps, slot)


def _filtered(last: Node, path: tuple[Step, ...], slot: Slot | None) -> list[ValuePath] | None:
    if not last.filters:
        return [ValuePath(path, slot)]
    if slot is not None or len(last.filters) > 1:
        return None
    return _below(last.filters[0], path)


def conjunction(predicate: Predicate) -> list[ValuePath] | None:
    """The paths that together decide the predicate on the document, or None if it takes more than that.

    A path that must exist and another that must exist do so of the same node only if there is but one such node: the
    document and the root element are the only ones known to be.
    """
    found = _joined(predicate, ())
    if found is None or not all(p.steps and _single(p.steps) and pathlike(p.steps) for p in found):
        return None
    return list(dict.fromkeys(found))


def _joined(predicate: Predicate, base: tuple[Step, ...]) -> list[ValuePath] | None:
    match predicate:
        case And(terms):
            return _each([_joined(term, base) for term in terms])
        case Exists(Twig((Node(step, filters), *rest))) if not base and step.axis == "child" and filters:
            if step.kind != "element" or any(isinstance(f, Or) for f in filters):
                return None
            below = [_joined(filter, (step,)) for filter in filters]
            if rest:
                below.append(_along(Twig(tuple(rest)), (step,), None))
            return _each(below)
        case Or():
            return None
    one = _below(predicate, base)
    return one if one is not None and len(one) == 1 else None


def _single(steps: tuple[Step, ...]) -> bool:
    return steps[-1].kind != "node"


def equality_is_a_step(slot: Slot) -> bool:
    """No value equals NaN."""
    return isinstance(slot.value, str) or slot.value == slot.value


def pathlike(steps: tuple[Step, ...]) -> bool:
    """Can the path engine follow these steps? ``node()`` it can take only as the last one, a PI's target not at all."""
    last = len(steps) - 1
    for i, step in enumerate(steps):
        if (step.kind == "node" and i < last) or (step.kind == "pi" and step.local is not None):
            return False
    return True
