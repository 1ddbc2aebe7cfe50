"""The one IR that every language compiles to (DESIGN.md, idea 2): linear paths, and tree patterns over them.

A tree pattern is a trunk of steps, each with filters; a filter is a boolean expression whose leaves are branches
(trunks again, relative to the node filtered), value tests and positions. It decomposes at once into what engines see:
the steps from the document to any node of the pattern are a linear path, a node with filters is a branch point, and
the leaves Compare and Match are value predicates on constants. Whether a node passes its filters is known at its end
tag, except for Position and the like, which are known at the end tag of its parent.

Everything is immutable and compares by value. Constants are leaves of their own (``Const``): a pattern without them is
a shape, and ``constants`` lists them in the order of traversal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

from twigcast.errors import Span
from twigcast.ir.visit import Part, find_all, replace


class _Sortable:
    """Keeps the text of a part, the key that terms are sorted by, once it was asked for."""

    __slots__ = ("_text",)
    _text: str


_keep_text = _Sortable.__dict__["_text"].__set__


class Step(_Sortable, Part, cache_hash=True):
    """One step of a path: how to get there from the node before, and what is found there.

    ``axis`` is ``child`` (one level down) or ``descendant`` (one level or more). An attribute or a text node counts as
    one level below its element, so ``a//@x`` also finds an ``x`` on ``a`` itself.

    ``kind`` is ``element``, ``attribute``, ``text``, ``comment``, ``pi`` or ``node`` (any of these but an attribute).
    ``ns`` None means any namespace, ``""`` no namespace; ``local`` None means any name. For ``pi`` it is the target.
    """

    axis: str
    kind: str
    ns: str | None = None
    local: str | None = None

    def __str__(self) -> str:
        text: str | None = getattr(self, "_text", None)
        if text is None:
            text = ("//" if self.axis == "descendant" else "/") + test_text(self.kind, self.ns, self.local)
            _keep_text(self, text)
        return text


class LinearPath(Part):
    """A path from the document root without predicates: all that the shared path engine sees."""

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return "".join(map(str, self.steps))


class Predicate(_Sortable, Part, cache_hash=True):
    """A condition on a context node: a node of the message, or the document itself."""

    def __str__(self) -> str:
        return predicate_text(self)


class Node(Part, cache_hash=True):
    """A step and the filters on it. They apply left to right: each counts positions among what the last one left.

    Positions count per parent: among its children that pass the step's test and the filters before (SEMANTICS 8).
    In canonical form every filter but the first one has a position in it.
    """

    step: Step
    filters: tuple[Predicate, ...] = ()


class _Trunk(_Sortable):
    __slots__ = ("_bare", "_steps")
    _steps: tuple[Step, ...]
    _bare: bool


_keep_steps = _Trunk.__dict__["_steps"].__set__
_keep_bare = _Trunk.__dict__["_bare"].__set__


class Twig(_Trunk, Part, cache_hash=True):
    """A trunk of nodes below a context node; it finds every match of the last one. No nodes: the context itself."""

    nodes: tuple[Node, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        steps: tuple[Step, ...] | None = getattr(self, "_steps", None)
        if steps is None:
            steps = tuple([node.step for node in self.nodes])
            _keep_steps(self, steps)
        return steps

    @property
    def bare(self) -> bool:
        """Without filters, as most are."""
        bare: bool | None = getattr(self, "_bare", None)
        if bare is None:
            bare = not any([node.filters for node in self.nodes])  # noqa: C419 - a generator takes twice as long
            _keep_bare(self, bare)
        return bare

    @property
    def path(self) -> LinearPath:
        """The steps alone, relative to the context."""
        return LinearPath(self.steps)

    def __str__(self) -> str:
        return twig_text(self)


class Const(Part):
    """A constant of the subscription: a string, compared as such, or a float."""

    value: str | float


class Slot(Const):
    """The place of a constant; ``value`` is still there for rules that depend on it (an empty string, a NaN)."""

    index: int


# -- values: what is compared with a constant


class StringValue(Part):
    """The string-value of ``twig``'s nodes. A test on it holds if it holds for any of them; with ``first``, for the
    first in document order, or for the empty string if there is none (SEMANTICS 2, 7)."""

    twig: Twig
    first: bool = False


class NormalizeSpace(Part):
    of: StringValue


class StringLength(Part):
    of: StringValue | NormalizeSpace


class Count(Part):
    """How many distinct nodes ``twig`` finds."""

    twig: Twig


Value: TypeAlias = "StringValue | NormalizeSpace | StringLength | Count"


# -- predicates


class Bool(Predicate):
    value: bool


class And(Predicate):
    terms: tuple[Predicate, ...]


class Or(Predicate):
    terms: tuple[Predicate, ...]


class Not(Predicate):
    term: Predicate


class Exists(Predicate):
    twig: Twig


class NodeIs(Predicate):
    """The context node itself passes this test; the document passes none."""

    kind: str
    ns: str | None = None
    local: str | None = None


class Compare(Predicate):
    """``value op constant``. Numeric when the constant is a float, as it always is for ``< <= > >=`` (SEMANTICS 5)."""

    value: Value
    op: str
    const: Const


class Match(Predicate):
    """``function`` is ``contains`` or ``starts-with``."""

    function: str
    value: StringValue | NormalizeSpace
    const: Const


class Position(Predicate):
    """``of op n``, where ``op`` is one of ``= != <= >=``, and ``of`` is

    ``position``: the node's own, from 1; ``last``: how many there are; ``from-end``: last() - position(), from 0.
    """

    of: str
    op: str
    n: int


TRUE, FALSE = Bool(True), Bool(False)


# -- whole subscriptions


class Selection(Part):
    """Nodes that a subscription selects: those of ``twig`` below the document, if ``guard`` holds for the document."""

    guard: Predicate
    twig: Twig


class Structural(Part):
    """A linear path, of elements with perhaps an attribute or text() at its end: for the path engine alone."""

    path: LinearPath


class Pattern(Part):
    """A filter that tree patterns decide: it matches when ``condition`` holds for the document.

    ``selects`` is None for a query that is not a node-set; else their union, in document order, is the result, or
    those nodes of it whose place in it passes ``pick``: ``(//f)[1]``.
    """

    condition: Predicate
    selects: tuple[Selection, ...] | None
    pick: Position | None = None


class Reason(Part):
    """What keeps a query from being a tree pattern, and where in its text."""

    text: str
    span: Span


class Residual(Part):
    """A query beyond tree patterns. It can only match where ``necessary`` does (None: anywhere).

    ``expr`` is its syntax tree (``twigcast.lang.ast.Expr``); the meaning does not depend on the context node.
    ``node_set``: it selects nodes.
    """

    necessary: Predicate | None
    reasons: tuple[Reason, ...]
    expr: Any
    node_set: bool = False


Compiled: TypeAlias = "Structural | Pattern | Residual"


def test_text(kind: str, ns: str | None, local: str | None) -> str:
    """A node test as XPath text, namespaces written out as ``{uri}name``."""
    if kind in ("element", "attribute"):
        name = local or "*"
        if ns is not None and (ns or local is None):
            name = f"{{{ns}}}{name}"
        elif ns is None and local is not None:
            name = f"*:{local}"
        return "@" + name if kind == "attribute" else name
    if kind == "pi":
        return f"processing-instruction('{local}')" if local is not None else "processing-instruction()"
    return f"{kind}()"


# -- traversal


def own_leaves(predicate: Predicate) -> Iterator[Predicate]:
    """Yield the leaves about the context node itself, in order, not those of filters within branches."""
    stack = [predicate]
    while stack:
        one = stack.pop()
        if isinstance(one, And | Or):
            stack.extend(reversed(one.terms))
        elif type(one) is Not:
            stack.append(one.term)
        else:
            yield one


def constants(pattern: Predicate | Twig) -> tuple[Const, ...]:
    """Return the constants in the order of traversal; patterns of one shape differ in nothing else."""
    return tuple(find_all(pattern, Const))


def twig_of(value: Value) -> Twig:
    """Return the branch that a value is of."""
    while isinstance(value, NormalizeSpace | StringLength):
        value = value.of
    return value.twig


def tests_any(value: Value) -> bool:
    """Whether a test of the value holds if it holds for any node of its branch."""
    while isinstance(value, NormalizeSpace | StringLength):
        value = value.of
    return type(value) is StringValue and not value.first


def uses_position(predicate: Predicate) -> bool:
    """Whether positions of the context node matter; those inside branches have contexts of their own."""
    return any(isinstance(one, Position) for one in own_leaves(predicate))


def leaves(predicate: Predicate) -> Iterator[Predicate]:
    """Yield all leaves, also those of the filters on branches."""
    return (one for one in find_all(predicate, Predicate) if not isinstance(one, And | Or | Not))


def branch_of(leaf: Predicate) -> Twig | None:
    match leaf:
        case Exists(twig):
            return twig
        case Compare(value=value) | Match(value=value):
            return twig_of(value)
    return None


def any_branch(leaf: Predicate) -> Twig | None:
    """The branch of a leaf that holds if it holds for any node of that branch."""
    match leaf:
        case Exists(twig):
            return twig
        case Compare(value=value) | Match(value=value):
            return twig_of(value) if tests_any(value) else None
    return None


_P = TypeVar("_P", bound="Compare | Match")


def tested_at(test: _P, twig: Twig) -> _P:
    """Return the same test of another branch."""
    return replace(test, value=with_twig(test.value, twig))


_V = TypeVar("_V", bound="Value")


def with_twig(value: _V, twig: Twig) -> _V:
    """Return the same value of another branch."""
    if isinstance(value, NormalizeSpace | StringLength):
        of = with_twig(value.of, twig)
        return value if of is value.of else type(value)(of)  # type: ignore[arg-type]
    if twig is value.twig:
        return value
    return StringValue(twig, value.first) if isinstance(value, StringValue) else Count(twig)  # type: ignore[return-value]


# -- text: XPath-like, for people, and as the sort key of canonical forms


def in_order(predicates: Iterable[Predicate]) -> list[Predicate]:
    """Each once, sorted by shape, and only then by constants: equal shapes order their terms equally."""
    every = list(predicates)
    by_shape = {shape_text(one): one for one in every}
    if len(by_shape) == len(every):
        return [by_shape[shape] for shape in sorted(by_shape)]
    return sorted(dict.fromkeys(every), key=lambda one: (shape_text(one), predicate_text(one)))


def shape_text(predicate: Predicate) -> str:
    """The text without the constants."""
    text: str | None = getattr(predicate, "_text", None)
    if text is None:
        text = _text(predicate, masked=True)
        _keep_text(predicate, text)
    return text


def predicate_text(predicate: Predicate, masked: bool = False) -> str:
    return shape_text(predicate) if masked else _text(predicate, masked)


def _text(predicate: Predicate, masked: bool) -> str:
    # the most frequent not by a class pattern, which takes several times as long
    if type(predicate) is Exists:
        return twig_text(predicate.twig, masked)
    if type(predicate) is Compare:
        return f"{_value(predicate.value, masked)} {predicate.op} {_const(predicate.const, masked)}"
    if type(predicate) is And:
        return " and ".join([_nested(term, masked, Or) for term in predicate.terms])
    match predicate:
        case Or(terms):
            return " or ".join([_nested(term, masked, And) for term in terms])
        case Not(term):
            return f"not({predicate_text(term, masked)})"
        case Bool(truth):
            return "true()" if truth else "false()"
        case NodeIs(kind, ns, local):
            # An attribute is no principal node of the self axis; the text is for reading, so it borrows the @.
            return f"self::{test_text(kind, ns, local)}"
        case Match(function, of, const):
            return f"{function}({_value(of, masked)}, {_const(const, masked)})"
        case Position(of, op, n):
            return f"{'last() - position()' if of == 'from-end' else of + '()'} {op} {n}"
    return repr(predicate)


def _nested(term: Predicate, masked: bool, weaker: type[Predicate]) -> str:
    text = predicate_text(term, masked)
    return f"({text})" if isinstance(term, weaker) else text


def twig_text(twig: Twig, masked: bool = False) -> str:
    """Relative to the context, as in a predicate."""
    if not masked:
        return _trunk_text(twig, masked)
    text: str | None = getattr(twig, "_text", None)
    if text is None:
        text = _trunk_text(twig, masked)
        _keep_text(twig, text)
    return text


def _trunk_text(twig: Twig, masked: bool) -> str:
    if not twig.nodes:
        return "."
    text = "".join([_node(node, masked) for node in twig.nodes])
    return "." + text if text.startswith("//") else text[1:]


def _node(node: Node, masked: bool) -> str:
    text = str(node.step)
    for one in node.filters:
        text += f"[{predicate_text(one, masked)}]"
    return text


def _value(value: Value, masked: bool) -> str:
    match value:
        case StringValue(twig, first):
            text = twig_text(twig, masked)
            return f"string({text})" if first else text
        case NormalizeSpace(of):
            return f"normalize-space({_value(of, masked)})"
        case StringLength(of):
            return f"string-length({_value(of, masked)})"
        case Count(twig):
            return f"count({twig_text(twig, masked)})"


def _const(const: Const, masked: bool) -> str:
    if masked:
        return "?" if isinstance(const.value, str) else "?n"
    return repr(const.value)
