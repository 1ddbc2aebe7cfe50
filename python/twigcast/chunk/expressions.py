"""TRANSTOOL: subscriptions -> expressions with long prefixes, and how the outcomes of these answer the subscription.

The compiler has turned parent steps into predicates already (``lang.routes``). What is left to do is to take conditions
apart. A union or disjunction has an expression for each operand; so has a conjunction of conditions on the document or
on the document element, since there is but one of them: ``/a[b/c]/d`` is ``/a/b/c`` and ``/a/d``, which may then live
in different chunks. With a schema, wildcards and ``//`` are resolved, and what no valid document has is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from twigcast.chunk.downward import downward_twig
from twigcast.chunk.formula import Found
from twigcast.chunk.needs import on_tag
from twigcast.chunk.scheme import Part
from twigcast.chunk.unfold import unfolded
from twigcast.engine import Subscription
from twigcast.ir.pattern import (
    FALSE,
    TRUE,
    And,
    Bool,
    Compare,
    Exists,
    Match,
    Node,
    NodeIs,
    Position,
    Predicate,
    Residual,
    Selection,
    Step,
    Structural,
    Twig,
    any_branch,
    branch_of,
    own_leaves,
    tested_at,
)
from twigcast.ir.visit import replace
from twigcast.lang.canon import conj, disj, intersect, mapped
from twigcast.lang.compile import compile_query
from twigcast.lang.flwr import is_transform
from twigcast.lang.values import compare
from twigcast.lang.xpath import parse
from twigcast.schema.graph import ElementGraph
from twigcast.schema.satisfiable import Impossible


@dataclass(frozen=True, slots=True)
class Atom:
    """What is evaluated in one place: a path that is to find something, or a condition on the document."""

    what: Twig | Predicate
    result: str = "match"


class Whole(Exception):
    """The subscription takes the document: there is no pattern to take apart."""


def selections(s: Subscription, namespaces: Mapping[str, str]) -> Predicate | tuple[Selection, ...]:
    """Return a subscription as a condition on the document, or as the union of paths that it is."""
    if is_transform(s.query):
        raise Whole
    scope = {**namespaces, **(s.namespaces or {})}, s.default_namespace
    compiled = compile_query(s.query, *scope, dialect=s.dialect)
    if isinstance(compiled, Structural):
        return (Selection(TRUE, Twig(tuple(map(Node, compiled.path.steps)))),)
    if isinstance(compiled, Residual):
        twig = downward_twig(parse(s.query, *scope, dialect=s.dialect))
        if twig is None:
            raise Whole
        return (Selection(TRUE, twig),)
    asked = s.result != "match"
    if asked and (compiled.pick is not None or compiled.selects is None):
        raise Whole
    if compiled.selects is None or compiled.pick is not None:
        return compiled.condition
    if asked and not all(one.twig.nodes for one in compiled.selects):
        raise Whole
    return compiled.selects


class Splitter:
    """Takes conditions apart. ``number`` gives an atom the number that formulas know it by."""

    def __init__(self, graph: ElementGraph | None, number: Callable[[Atom], int]) -> None:
        self.graph = graph
        self.number = number
        self.reason: Impossible | None = None
        """Why something was dropped."""

    def union(self, selects: tuple[Selection, ...], result: str) -> tuple[Predicate, tuple[Part, ...]]:
        """Whether a union finds something, and its parts if they are asked for."""
        matches: list[Predicate] = []
        parts: list[Part] = []
        for one in selects:
            condition, twig = self.lifted(one.twig)
            guard = conj(self.formula(one.guard), condition)
            if guard == FALSE:
                continue
            for number in self.places(twig, result):
                matches.append(conj(guard, Found(number)))
                parts.append(Part(guard, number))
            if not twig.nodes:
                matches.append(guard)
        return disj(*matches), tuple(parts) if result != "match" else ()

    def formula(self, predicate: Predicate) -> Predicate:
        """Return a condition on the document as a formula over expressions."""
        return mapped(predicate, self._leaf)

    def _leaf(self, leaf: Predicate) -> Predicate:
        match leaf:
            case Bool():
                return leaf
            case NodeIs():
                return FALSE
            case Exists(twig):
                return self.found(twig)
            case Compare() | Match():
                branch = any_branch(leaf)
                if branch is not None and branch.nodes:
                    *before, last = branch.nodes
                    tested = replace(last, filters=(*last.filters, tested_at(leaf, Twig())))
                    return self.found(Twig((*before, tested)))
        return Found(self.number(Atom(leaf)))

    def found(self, twig: Twig) -> Predicate:
        """Return whether a path finds something, as a formula."""
        if not twig.nodes:
            return TRUE
        guard, twig = self.lifted(twig)
        return conj(guard, self.somewhere(twig))

    def somewhere(self, twig: Twig) -> Predicate:
        """Return whether one of the expressions that a path is made into finds something."""
        return disj(*map(Found, self.places(twig, "match")))

    def places(self, twig: Twig, result: str) -> list[int]:
        """Return the numbers of the expressions that together find what the twig finds."""
        if not twig.nodes:
            return []
        ways = [twig] if self.graph is None else unfolded(self.graph, twig)
        if isinstance(ways, Impossible):
            self.reason = self.reason or ways
            return []
        return [self.number(Atom(way, result)) for way in ways]

    # -- the document element

    def lifted(self, twig: Twig) -> tuple[Predicate, Twig]:
        """Return the conditions on the document element that look into it, and the twig without them."""
        if not twig.nodes or not twig.nodes[0].filters:
            return TRUE, twig
        root, *below = twig.nodes
        if root.step.axis != "child" or root.step.kind != "element":
            return TRUE, twig
        terms = [term for one in root.filters for term in (one.terms if isinstance(one, And) else (one,))]
        stay = tuple(term for term in terms if on_tag(term) and not _counts(term))
        guards = (mapped(term, lambda leaf: self.at_root(root.step, leaf)) for term in terms if term not in stay)
        return conj(*guards), Twig((Node(root.step, stay), *below))

    def at_root(self, step: Step, leaf: Predicate) -> Predicate:
        """Return a condition on the element that ``step`` finds as the document element, given that it finds it."""
        match leaf:
            case Bool():
                return leaf
            case Position(of, op, n):
                return Bool(compare(0.0 if of == "from-end" else 1.0, op, float(n)))
            case NodeIs():
                narrower = intersect(step, leaf)
                return FALSE if narrower is None else self.somewhere(Twig((Node(narrower),)))
        twig = branch_of(leaf)
        if twig is None or not twig.nodes:
            return self.somewhere(Twig((Node(step, (leaf,)),)))
        longer = Twig((Node(step), *twig.nodes))
        if isinstance(leaf, Compare | Match):
            return self.formula(tested_at(leaf, longer))
        return self.found(longer)


def _counts(predicate: Predicate) -> bool:
    return any(isinstance(one, Position | NodeIs) for one in own_leaves(predicate))
