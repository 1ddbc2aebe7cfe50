"""Location paths -> routes: ways down from a base node, with child and descendant steps alone.

A path becomes a union of routes, for ``descendant-or-self::a`` is here or below. Steps up are rewritten forward: what
led down to a node becomes a filter on the node that the step goes back to, ``a/b/..`` is ``a[b]``; a predicate about
something above (see outer.py) moves to the node that it is about, ``p/a[../b]`` is ``p[b]/a``. An axis that has no
forward form leads to a superset of its nodes, marked with an Unknown filter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twigcast.errors import Span
from twigcast.ir.pattern import FALSE, TRUE, Bool, Node, NodeIs, Predicate, Step, Twig, uses_position
from twigcast.ir.visit import Part, replace
from twigcast.lang import ast
from twigcast.lang.canon import conj, disj, exists, negate, with_filters
from twigcast.lang.outer import Above, AtDocument, Unknown, Up, at_document, outer_leaves, replaced, unknown_in

# What position() counts in a predicate: siblings under one parent, a single node, or something else.
SIBLINGS, SINGLE, OTHER = "siblings", "single", "other"

MAX_STEPS = 200
MAX_ROUTES = 16
MAX_OUTER = 3
# Times that a condition on what lies above is moved, in all of a query: each may be two cases on several routes.
MAX_MOVES = 300


class TooManyRoutes(Exception):
    """The pattern would be larger than it is worth."""


class Route(Part):
    """``hops`` lead from the context to the base node, each with a condition on the node that it leaves.

    ``base`` is a condition on the base node and ``nodes`` go down from it. ``gap``: the path so far ends with ``//``.
    ``lost``: what follows is out of reach of patterns, so that only the way up to here is known.
    """

    hops: tuple[tuple[str, Predicate], ...] = ()
    document: bool = False
    base: Predicate = TRUE
    nodes: tuple[Node, ...] = ()
    gap: bool = False
    lost: bool = False

    @property
    def twig(self) -> Twig:
        return Twig(self.nodes)

    def any(self, leaf: Predicate) -> Predicate:
        """That ``leaf``, a test of some node at the end of this route, holds: a condition on the context."""
        holds = conj(self.base, leaf)
        for kind, before in reversed(self.hops):
            above = {"up": Up, "above": Above, "document": AtDocument}[kind](holds)
            holds = conj(before, above)
        return holds

    def one(self, leaf: Predicate, default: bool) -> Predicate:
        """That ``leaf``, a test of all the nodes of this route at once, holds; ``default`` for no nodes."""

        def only_if(condition: Predicate, then: Predicate) -> Predicate:
            return disj(conj(condition, then), conj(negate(condition), Bool(default)))

        holds = only_if(self.base, leaf)
        for kind, before in reversed(self.hops):
            holds = only_if(before, Up(holds, default) if kind == "up" else AtDocument(holds))
        return holds


class Paths:
    """Compiles node-set expressions; ``predicate`` compiles what stands in their brackets."""

    def __init__(self, predicate: Callable[[ast.Expr, str], Predicate], unknown: Callable[[str, Span], Unknown]):
        self.predicate = predicate
        self.unknown = unknown
        self.span = Span(0, 0)
        self.moves = 0

    def routes(self, expr: ast.Expr) -> list[Route]:
        """The routes of a node-set expression, in no order."""
        match expr:
            case ast.LocationPath(absolute, steps):
                start = Route((("document", TRUE),), True) if absolute else Route()
                return self.walk([start], steps)
            case ast.Union(operands):
                return [route for operand in operands for route in self.routes(operand)]
            case ast.FilterPath(primary, predicates, steps):
                found = self.routes(primary)
                for predicate in predicates:
                    found = self.filtered(found, self.predicate(predicate, OTHER))
                return self.walk(found, steps)
        unknown = self.unknown("id() needs the types of attributes", expr.span)
        return [Route(base=unknown, lost=True)]

    def walk(self, routes: list[Route], steps: Sequence[ast.AxisStep]) -> list[Route]:
        if len(steps) > MAX_STEPS:
            raise TooManyRoutes
        for step in steps:
            filters = [self.predicate(one, counting(step)) for one in step.predicates]
            self.span = step.span
            routes = self.bounded([after for route in routes for after in self.step(route, step, filters)])
        return self.bounded([end for route in routes for end in expanded(route)])

    def bounded(self, routes: list[Route]) -> list[Route]:
        if len(routes) < 2:
            return routes
        distinct = list(dict.fromkeys(routes))
        if len(distinct) > MAX_ROUTES:
            raise TooManyRoutes
        return distinct

    # -- one step

    def step(self, route: Route, step: ast.AxisStep, filters: list[Predicate]) -> list[Route]:
        if route.lost:
            return [route]
        test = node_test(step)
        if test is None:
            return []
        axis = step.axis
        if axis in ("child", "descendant", "attribute"):
            return self.filtered(down(route, axis, test), *filters)
        if axis == "descendant-or-self":
            if test.kind == "node" and not filters:
                return [replace(route, gap=True)]
            flat = replace(route, gap=False)
            return self.filtered([*here([flat], test), *down(flat, "descendant", test)], *filters)
        ends = expanded(route)
        if axis == "self":
            return self.filtered(here(ends, test), *filters)
        if axis == "parent":
            return self.filtered(here(self.parents(ends), test), *filters)
        if axis in ("ancestor", "ancestor-or-self"):
            found = self.ancestors(ends, test)
            return self.filtered([*found, *(here(ends, test) if axis != "ancestor" else ())], *filters)
        unknown = self.unknown(f"the axis {axis} is not part of tree patterns", step.span)
        if axis in ("following-sibling", "preceding-sibling"):
            nearby = [one for up in self.parents(ends) for one in down(up, "child", test)]
            return self.filtered(nearby, *filters, unknown)
        if axis in ("following", "preceding"):
            anywhere = [
                Route((*end.hops, ("document", conj(end.base, exists(end.twig)))), True, nodes=(_deep(test),))
                for end in ends
            ]
            return self.filtered(anywhere, *filters, unknown)
        return [replace(end, lost=True) for end in self.filtered(ends, unknown)]

    def filtered(self, routes: list[Route], *filters: Predicate) -> list[Route]:
        """The routes with filters on their end."""
        if not filters:
            return routes
        found: list[Route] = []
        for route in routes:
            if route.lost:
                found.append(route)
            elif route.nodes:
                found += self.settled(on_node(route, 1, *filters), 1)
            else:
                found += on_base(route, *filters)
        return found

    # -- up

    def parents(self, routes: list[Route]) -> list[Route]:
        found: list[Route] = []
        for route in routes:
            if route.nodes:
                *before, last = route.nodes
                above = with_nodes(route, tuple(before))
                branch = exists(Twig((with_axis(last, "child"),)))
                if last.step.axis == "descendant":
                    found += self.filtered(down(above, "descendant", NodeIs("element")), branch)
                found += self.filtered([above], branch)
            elif not route.document:
                found.append(Route((*route.hops, ("up", route.base))))
        return found

    def ancestors(self, routes: list[Route], test: NodeIs) -> list[Route]:
        found: list[Route] = []
        for route in routes:
            if route.nodes:
                *before, last = route.nodes
                above = with_nodes(route, tuple(before))
                branch = exists(Twig((last,)))
                if last.step.axis == "descendant" and test.kind in ("element", "node"):
                    between = NodeIs("element", test.ns, test.local)
                    found += self.filtered(down(above, "descendant", between), branch)
                upper = self.filtered([above], branch)
                found += here(upper, test)
                found += self.ancestors(upper, test)
            elif not route.document:
                found += here([Route((*route.hops, ("above", route.base)))], test)
        return self.bounded(found)

    # -- moving predicates up

    def settled(self, routes: list[Route], tail: int) -> list[Route]:
        """The routes with no outer leaf left in the node ``tail`` from the end."""
        found: list[Route] = []
        for route in routes:
            found += self.settle(route, tail)
        return self.bounded(found)

    def settle(self, route: Route, tail: int) -> list[Route]:
        node = route.nodes[-tail]
        if not node.filters:
            return [route]
        outer = [one for predicate in node.filters for one in outer_leaves(predicate)]
        if not outer:
            return [route]
        leaf = outer[0][0]
        self.moves += 1
        if self.moves > MAX_MOVES or len({one for one, _ in outer}) > MAX_OUTER:
            raise TooManyRoutes
        # Without positions, nodes that pass when the leaf is false pass anyway: no need to say that it is false.
        only_positive = all(positive for one, positive in outer if one == leaf)
        need_false = not only_positive or any(map(uses_position, node.filters))
        doubt = unknown_in(leaf)
        found: list[Route] = []
        for value in (True, False):
            known: Predicate = Bool(value)
            if doubt is not None and (value or need_false):
                # What it says above is necessary, no more: an unknown may hold for one node here and not for the next.
                known = doubt if value else negate(doubt)
            filters = [replaced(predicate, leaf, known) for predicate in node.filters]
            for case in self.settled(with_node(route, tail, with_filters(Node(node.step), *filters)), tail):
                if value or need_false:
                    found += self.pushed(case, tail, leaf, value)
                else:
                    found.append(case)
        return found

    def pushed(self, route: Route, tail: int, leaf: Predicate, value: bool) -> list[Route]:
        """The routes on which ``leaf`` has this ``value`` for the node ``tail`` from the end."""
        node = route.nodes[-tail]
        child = node.step.axis == "child"
        match leaf:
            case AtDocument():
                return on_base(route, leaf if value else negate(leaf))
            case Up(of):
                wanted = of if value else negate(of)
                close = with_node(route, tail, with_axis(node, "child"))
                found = self.demanded(close, tail + 1, wanted)
                if not child:
                    found += self.between(route, tail, wanted, "child")
                return found
            case Above(of) if value:
                found = self.demanded([route], tail + 1, disj(of, leaf))
                if not child:
                    found += self.between(route, tail, of, "descendant")
                return found
            case Above(of) if child:
                return self.demanded([route], tail + 1, conj(negate(of), negate(leaf)))
        reason = self.unknown("that no ancestor fits, over a '//', is not a tree pattern", self.span)
        return with_node(route, tail, with_filters(node, reason))

    def demanded(self, routes: list[Route], tail: int, wanted: Predicate) -> list[Route]:
        found: list[Route] = []
        for route in routes:
            if tail > len(route.nodes):
                found += on_base(route, wanted)
            else:
                found += self.settled(on_node(route, tail, wanted), tail)
        return found

    def between(self, route: Route, tail: int, wanted: Predicate, axis: str) -> list[Route]:
        """The routes with an element that fits put in before the node ``tail`` from the end."""
        put_in = with_filters(_deep(NodeIs("element")), wanted)
        if put_in is None:
            return []
        at = len(route.nodes) - tail
        nodes = (*route.nodes[:at], put_in, with_axis(route.nodes[at], axis), *route.nodes[at + 1 :])
        return self.settled([with_nodes(route, nodes)], tail + 1)


def counting(step: ast.AxisStep) -> str:
    """What the positions in this step's predicates count."""
    if step.axis == "child":
        return SIBLINGS
    named = isinstance(step.test, ast.NameTest) and step.test.ns is not None and step.test.local is not None
    return SINGLE if step.axis in ("self", "parent") or (step.axis == "attribute" and named) else OTHER


def node_test(step: ast.AxisStep) -> NodeIs | None:
    """The node test, with the axis's principal node type for names; None when nothing can pass it."""
    test = step.test
    attribute = step.axis == "attribute"
    if step.axis == "namespace" and _no_namespace(test):
        return None
    if isinstance(test, ast.NameTest):
        return NodeIs("attribute" if attribute else "element", test.ns, test.local)
    if attribute:
        return NodeIs("attribute") if test.kind == "node" else None
    return NodeIs("pi" if test.kind == "processing-instruction" else test.kind, None, test.target)


def _no_namespace(test: ast.NameTest | ast.KindTest) -> bool:
    """A namespace node is named by its prefix alone, in no namespace (section 5.4); libxml2 looks at its URI."""
    return bool(test.ns) if isinstance(test, ast.NameTest) else test.kind != "node"


def expanded(route: Route) -> list[Route]:
    """A route that ends with ``//``, as two that do not: the node itself, and all below it."""
    if not route.gap:
        return [route]
    flat = replace(route, gap=False)
    return [flat, *down(flat, "descendant", NodeIs("node"))]


def down(route: Route, axis: str, test: NodeIs) -> list[Route]:
    deep = route.gap or axis == "descendant"
    node = Node(Step("descendant" if deep else "child", test.kind, test.ns, test.local))
    parents = [route]
    if route.nodes and route.nodes[-1].step.kind != "element":
        parents = on_node(route, 1, NodeIs("element"))
    elif route.document and not route.nodes and not deep and test.kind in ("attribute", "text"):
        return []
    return [with_nodes(parent, (*parent.nodes, node)) for parent in parents]


def here(routes: list[Route], test: NodeIs) -> list[Route]:
    """The self axis."""
    if test.kind == "node":
        return routes
    return [end for route in routes for end in (on_node(route, 1, test) if route.nodes else on_base(route, test))]


def on_base(route: Route, *filters: Predicate) -> list[Route]:
    """The route with more conditions on its base node; none when it leads nowhere."""
    base = conj(route.base, *filters)
    if route.document:
        base = at_document(base)
    return [] if base == FALSE else [replace(route, base=base)]


def on_node(route: Route, tail: int, *filters: Predicate) -> list[Route]:
    """The route with more filters on its node ``tail`` from the end."""
    return with_node(route, tail, with_filters(route.nodes[-tail], *filters))


def with_node(route: Route, tail: int, node: Node | None) -> list[Route]:
    if node is None:
        return []
    at = len(route.nodes) - tail
    if node is route.nodes[at]:
        return [route]
    return [with_nodes(route, (*route.nodes[:at], node, *route.nodes[at + 1 :]))]


def with_nodes(route: Route, nodes: tuple[Node, ...]) -> Route:
    """The route with other nodes, and without the gap that they closed."""
    return Route(route.hops, route.document, route.base, nodes, False, route.lost)


def with_axis(node: Node, axis: str) -> Node:
    return replace(node, step=replace(node.step, axis=axis))


def _deep(test: NodeIs) -> Node:
    return Node(Step("descendant", test.kind, test.ns, test.local))
