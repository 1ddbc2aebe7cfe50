"""Patterns that are nothing but paths: the path engine alone decides them.

``/a/b[@x = "1"]`` is the path ``/a/b/@x`` with the value ``"1"`` as one more step, because nothing but existence is
asked of every node on the way; ``or`` is several such paths.
"""

from __future__ import annotations

from typing import NamedTuple

from twigcast.ir.pattern import And, Compare, Exists, Or, Predicate, Slot, Step, StringValue, Twig


class ValuePath(NamedTuple):
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
    if isinstance(predicate, Exists):
        return _along(predicate.twig, base, None)
    equal = equality(predicate)
    if equal is not None:
        return _along(equal[0], base, equal[1])
    if isinstance(predicate, Or):
        return _each([_below(term, base) for term in predicate.terms])
    return None


def equality(predicate: Predicate) -> tuple[Twig, Slot] | None:
    """The branch and the constant, if it is that some node of a branch equals a constant.

    Not by a class pattern, which takes several times as long.
    """
    if not isinstance(predicate, Compare) or predicate.op != "=":
        return None
    value, slot = predicate.value, predicate.const
    if isinstance(value, StringValue) and not value.first and isinstance(slot, Slot) and equality_is_a_step(slot):
        return value.twig, slot
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
    if twig.bare:
        return [ValuePath(base + twig.steps, slot)]
    *inner, last = twig.nodes
    if slot is not None or len(last.filters) != 1 or any(node.filters for node in inner):
        return None
    return _below(last.filters[0], base + twig.steps)


class Conjunction(NamedTuple):
    """Paths that together decide a predicate on the document, where it has one centre only."""

    paths: list[ValuePath]
    centre: int
    """The steps that lead to the centre: if they find a single node, the paths decide. The document needs none."""


def conjunction(predicate: Predicate) -> Conjunction | None:
    """The paths that together decide the predicate, or None if it takes more than that.

    A path that must exist and another that must exist do so of the same node if there is but one such node. The
    document and the root element are known to be, and of one other node on the way a message can tell.
    """
    found, centre = _branches(predicate.twig) if isinstance(predicate, Exists) else (_joined(predicate, ()), 0)
    if found is None or not all(p.steps and _single(p.steps) and pathlike(p.steps) for p in found):
        return None
    return Conjunction(list(dict.fromkeys(found)), centre)


def _branches(twig: Twig) -> tuple[list[ValuePath] | None, int]:
    nodes, steps = twig.nodes, twig.steps
    last = len(nodes) - 1
    centres = [i for i, node in enumerate(nodes) if node.filters and (i < last or not _prolongs(node.filters))]
    is_root = not nodes or (steps[0].axis == "child" and steps[0].kind == "element")
    known = 1 if is_root and centres[:1] == [0] else 0
    if len(centres) > known + 1:
        return None, 0
    parts = [_joined(filter, steps[: i + 1]) for i in centres for filter in nodes[i].filters]
    end = centres[-1] + 1 if centres else 0
    if end <= last:
        parts.append(_only(_along(Twig(nodes[end:]), steps[:end], None)))
    return _each(parts), 0 if len(centres) == known else end


def _joined(predicate: Predicate, base: tuple[Step, ...]) -> list[ValuePath] | None:
    if isinstance(predicate, And):
        return _each([_joined(term, base) for term in predicate.terms])
    if isinstance(predicate, Exists) and not base:
        found, centre = _branches(predicate.twig)
        return None if centre else found
    return _only(_below(predicate, base))


def _prolongs(filters: tuple[Predicate, ...]) -> bool:
    """Are the filters of the last node but further steps?"""
    return len(filters) == 1 and not isinstance(filters[0], And)


def _only(paths: list[ValuePath] | None) -> list[ValuePath] | None:
    """Not if it is enough that one of several exists."""
    return paths if paths is not None and len(paths) == 1 else None


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
