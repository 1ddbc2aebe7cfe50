"""Can a valid message ever match? And if not, which step is to blame, and what could stand there instead."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from twigcast.ir.pattern import And, Bool, NodeIs, Not, Or, Predicate, Step, Twig, any_branch, test_text
from twigcast.schema.graph import ElementGraph


@dataclass(frozen=True, slots=True)
class Impossible:
    """``step`` cannot follow ``path``: ``inside`` names the elements reached, ``allowed`` what may come below them."""

    path: str
    step: Step
    inside: tuple[str, ...]
    allowed: tuple[str, ...]

    @property
    def text(self) -> str:
        what = test_text(self.step.kind, self.step.ns, self.step.local)
        deep = " at any depth" if self.step.axis == "descendant" else ""
        if not self.inside:
            return f"{what} cannot be the document element" if not deep else f"{what} occurs nowhere in the schema"
        return f"{what} cannot occur in {_list(self.inside)}{deep} (after {self.path or '/'})"

    @property
    def hint(self) -> str:
        kind = "attributes" if self.step.kind == "attribute" else "elements"
        if not self.allowed:
            return f"no {kind} are allowed there"
        close = difflib.get_close_matches(self.step.local or "", [one.rpartition("}")[2] for one in self.allowed], 1)
        guess = f"did you mean {close[0]}? " if close else ""
        return f"{guess}the {kind} allowed there are {_list(self.allowed)}"


def _list(names: tuple[str, ...], most: int = 12) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def impossible(graph: ElementGraph, twig: Twig, start: int | None = None) -> Impossible | None:
    """Why ``twig`` finds nothing in any valid message, from the document or from elements of ``start``; None if it
    may find something."""
    return _twig(graph, twig, start, "")[1]


def never_true(graph: ElementGraph, predicate: Predicate) -> tuple[bool, Impossible | None]:
    """Whether a condition on the document holds for no valid message, with the reason where a step is to blame."""
    match predicate:
        case Bool(value):
            return not value, None
        case And(terms) | Or(terms):
            found = [never_true(graph, term) for term in terms]
            never = any(no for no, _ in found) if isinstance(predicate, And) else all(no for no, _ in found)
            return never, next((why for no, why in found if no and why), None) if never else None
    twig = any_branch(predicate)
    why = None if twig is None or not twig.nodes else impossible(graph, twig)
    return why is not None, why


def _twig(graph: ElementGraph, twig: Twig, at: int | None, path: str) -> tuple[int, Impossible | None]:
    """Return the declarations that the twig may end at, or why there are none."""
    reached = at
    for node in twig.nodes:
        before = reached
        reached = graph.step(before, node.step)
        if not reached:
            return 0, _blame(graph, before, node.step, path)
        path += str(node.step)
        if node.step.kind == "element":
            reached, why = narrowed(graph, And(node.filters), reached, path)
            if why is not None:
                return 0, why
    return reached if reached is not None else graph.roots, None


def narrowed(graph: ElementGraph, predicate: Predicate, at: int, path: str) -> tuple[int, Impossible | None]:
    """Return the declarations for which the predicate may hold. What is not sure stays: a negation rules out nothing.

    None of them: with the reason where a step is to blame."""
    match predicate:
        case Bool(value):
            return (at, None) if value else (0, None)
        case And(terms):
            for term in terms:
                at, why = narrowed(graph, term, at, path)
                if why is not None:
                    return 0, why
            return at, None
        case Or(terms):
            found, reason = 0, None
            for term in terms:
                left, why = narrowed(graph, term, at, path)
                found |= left
                reason = reason or why
            return found, None if found else reason
        case Not():
            return at, None
        case NodeIs("element", ns, local):
            return at & graph.named(ns, local), None
    twig = any_branch(predicate)
    if twig is None or not twig.nodes:
        return at, None
    left, reason = 0, None
    for one in graph.members(at):
        reached, why = _twig(graph, twig, 1 << one, path)
        if reached:
            left |= 1 << one
        reason = reason or why
    if not left and at:
        # Once more for all of them together, so that the message names every element in question.
        return 0, _twig(graph, twig, at, path)[1] or reason
    return left, None


def _blame(graph: ElementGraph, at: int | None, step: Step, path: str) -> Impossible:
    inside = () if at is None else _names(graph, at)
    if step.kind == "attribute":
        owners = graph.members(at or 0)
        found = {
            test_text("attribute", ns, local)[1:] for one in owners for ns, local in graph.declarations[one].attributes
        }
        return Impossible(path, step, inside, tuple(sorted(found)))
    deep = step.axis == "descendant"
    if at is None:
        below = graph.roots | (graph.all_below(graph.roots) if deep else 0)
    else:
        below = graph.all_below(at) if deep else graph.all_children(at)
    return Impossible(path, step, inside, _names(graph, below))


def _names(graph: ElementGraph, mask: int) -> tuple[str, ...]:
    return tuple(sorted({str(graph.declarations[one]) for one in graph.members(mask)}))
