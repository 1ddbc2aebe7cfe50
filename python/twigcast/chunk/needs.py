"""What an expression needs of a document: how deep a chunk may begin, and which elements beside it decide the rest."""

from __future__ import annotations

from collections.abc import Iterator

from twigcast.chunk.downward import Raw
from twigcast.chunk.scheme import Keep, Path
from twigcast.ir.pattern import (
    And,
    Compare,
    Count,
    Exists,
    Match,
    Node,
    Or,
    Predicate,
    Step,
    Twig,
    branch_of,
    own_leaves,
    tests_any,
    twig_of,
    uses_position,
)

_LEAVES = ("text", "comment", "pi")
_ANYWHERE = Step("descendant", "element")


class NeedsDocument(Exception):
    """No part of the document is enough."""


def reach(twig: Twig, *, filters: bool) -> Path:
    """Return the longest path at which a chunk may begin, for ``twig`` to be found in it.

    A position is known inside the parent only. Without ``filters``, so is a condition on what lies beside the chunk:
    then only the attributes of elements above it may be tested. With them, these elements have filter nodes.
    """
    names: list[tuple[str, str]] = []
    for node in twig.nodes:
        step = node.step
        if step.axis != "child" or step.kind != "element" or step.ns is None or step.local is None:
            break
        if any(map(uses_position, node.filters)):
            break
        names.append((step.ns, step.local))
        if not all(on_tag(one) or (filters and not _on_content(one)) for one in node.filters):
            break
    return tuple(names)


def on_tag(predicate: Predicate) -> bool:
    """Whether the element's start tag decides it."""
    for leaf in own_leaves(predicate):
        if isinstance(leaf, Raw):
            return False
        twig = branch_of(leaf)
        if twig is None:
            continue
        if len(twig.nodes) != 1 or twig.nodes[0].step.kind != "attribute" or twig.nodes[0].step.axis != "child":
            return False
    return True


def _on_content(predicate: Predicate) -> bool:
    """Whether it takes all that is in the element, so that there is nothing to gain from a chunk below it."""
    for leaf in own_leaves(predicate):
        twig = branch_of(leaf)
        if isinstance(leaf, Raw):
            return True
        if twig is not None and (not twig.nodes or twig.nodes[0].step.kind not in ("element", "attribute")):
            return True
    return False


def unit(twig: Twig) -> tuple[Keep, ...] | None:
    """Return the elements that must be in one piece for ``twig`` to be found in some piece; None: the document."""
    steps: tuple[Step, ...] = ()
    for node in twig.nodes:
        counts = any(map(uses_position, node.filters))
        if node.step.kind == "attribute":
            return ()
        if counts and node.step.axis != "child":
            return None
        if not counts and (node.step.kind in _LEAVES or (node is twig.nodes[-1] and _is_any(node))):
            return ()  # all of a text is in one piece, with the tags around it
        if not counts and node.step.kind == "element":
            steps = (*steps, node.step)
            if all(map(on_tag, node.filters)):
                continue
        is_root = len(steps) == 1 and steps[0].axis == "child"
        return (Keep(steps, True),) if steps and not is_root else None
    return ()


def _is_any(node: Node) -> bool:
    return node.step.kind == "node" and not node.filters


def whole(twig: Twig) -> tuple[Keep, ...] | None:
    """Return the elements that must not be parted, for ``twig`` to hold for a document if it holds for a part: those
    whose values it compares. None: more of the document may change that it holds."""
    try:
        return tuple(one for one in keeps(twig) if one.subtree) if _only_gains(twig) else None
    except NeedsDocument:
        return None


def _only_gains(what: Twig | Predicate) -> bool:
    """Whether it goes on to hold when nodes are added to the document."""
    match what:
        case Twig(nodes):
            return all(_only_gains(one) for node in nodes for one in node.filters)
        case And(terms) | Or(terms):
            return all(map(_only_gains, terms))
        case Exists(twig):
            return _only_gains(twig)
        case Compare(value=Count()):
            return False
        case Compare(value=value) | Match(value=value):
            twig = twig_of(value)
            return (tests_any(value) or not twig.nodes) and _only_gains(twig)
        case _:
            return False


def keeps(what: Twig | Predicate, *, content: bool = False) -> tuple[Keep, ...]:
    """Return the elements that decide a path or condition from the document; with ``content``, those that the path
    finds come with all that is in them."""
    if isinstance(what, Twig):
        return reduced(_of_twig((), what, content))
    return reduced(_of_predicate((), what))


def beside(twig: Twig, depth: int) -> tuple[Keep, ...]:
    """Return the filter nodes of a chunk ``depth`` steps down: what the filters on the elements above it need."""
    found: list[Keep] = []
    steps: tuple[Step, ...] = ()
    for node in twig.nodes[: depth - 1]:
        steps = (*steps, node.step)
        for one in node.filters:
            found += _of_predicate(steps, one)
    return reduced(found)


def reduced(found: Iterator[Keep] | list[Keep]) -> tuple[Keep, ...]:
    """Remove duplicates, and keeps that a whole-subtree keep already covers."""
    kept = dict.fromkeys(found)
    if len(kept) == 1:
        return tuple(kept)
    full = {one.steps for one in kept if one.subtree}
    return tuple(sorted((one for one in kept if one.subtree or one.steps not in full), key=str))


def _of_predicate(base: tuple[Step, ...], predicate: Predicate) -> Iterator[Keep]:
    for leaf in own_leaves(predicate):
        match leaf:
            case Raw():
                yield _subtree(base)
            case Exists(twig) | Compare(value=Count(twig)):
                yield from _of_twig(base, twig, False)
            case Compare() | Match():
                twig_ = branch_of(leaf)
                assert twig_ is not None
                yield from _of_twig(base, twig_, True)


def _of_twig(base: tuple[Step, ...], twig: Twig, content: bool) -> Iterator[Keep]:
    steps = base
    for node in twig.nodes:
        kind = node.step.kind
        if kind == "attribute":
            if node.step.axis == "descendant":
                yield Keep((*steps, _ANYWHERE), False)
            if steps:
                yield Keep(steps, False)
            return
        if kind != "element":
            # text and the like: without the elements between them, two texts would become one
            yield _subtree(steps)
            return
        steps = (*steps, node.step)
        yield from _of_filters(steps, node)
    if content:
        yield _subtree(steps)
    elif steps:
        yield Keep(steps, False)


def _of_filters(steps: tuple[Step, ...], node: Node) -> Iterator[Keep]:
    for one in node.filters:
        if uses_position(one):
            yield Keep(steps, False)
        yield from _of_predicate(steps, one)


def _subtree(steps: tuple[Step, ...]) -> Keep:
    if not steps:
        raise NeedsDocument
    return Keep(steps, True)
