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

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from twigcast.errors import Span
from twigcast.frozen import frozen


class _Remembers:
    """What is wanted often of the same object: its hash, for patterns share their parts; and its text, the key that
    terms are sorted by. None until then, which ``quick`` sees to: every class of these needs it."""

    __slots__ = ("_hash", "_text")
    _hash: int | None
    _text: str | None


_T = TypeVar("_T", bound=_Remembers)


def _hash_once(cls: type[_T]) -> type[_T]:
    made: Callable[[_T], int] = cls.__hash__

    def __hash__(self: _T) -> int:
        found = self._hash
        if found is None:
            found = made(self)
            object.__setattr__(self, "_hash", found)
        return found

    cls.__hash__ = __hash__  # type: ignore[assignment,method-assign]
    return cls


@_hash_once
@frozen
class Step(_Remembers):
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
        text = self._text
        if text is None:
            text = ("//" if self.axis == "descendant" else "/") + test_text(self.kind, self.ns, self.local)
            object.__setattr__(self, "_text", text)
        return text


@frozen
class LinearPath:
    """A path from the document root without predicates: all that the shared path engine sees."""

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return "".join(map(str, self.steps))


class Predicate(_Remembers):
    """A condition on a context node: a node of the message, or the document itself."""

    __slots__ = ()

    def __str__(self) -> str:
        return predicate_text(self)


@_hash_once
@frozen
class Node(_Remembers):
    """A step and the filters on it. They apply left to right: each counts positions among what the last one left.

    Positions count per parent: among its children that pass the step's test and the filters before (SEMANTICS 8).
    In canonical form every filter but the first one has a position in it.
    """

    step: Step
    filters: tuple[Predicate, ...] = ()


class _RemembersSteps(_Remembers):
    __slots__ = ("_bare", "_steps")
    _steps: tuple[Step, ...] | None
    _bare: bool | None


@_hash_once
@frozen
class Twig(_RemembersSteps):
    """A trunk of nodes below a context node; it finds every match of the last one. No nodes: the context itself."""

    nodes: tuple[Node, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        steps = self._steps
        if steps is None:
            steps = tuple([node.step for node in self.nodes])
            object.__setattr__(self, "_steps", steps)
        return steps

    @property
    def bare(self) -> bool:
        """Without filters, as most are."""
        bare = self._bare
        if bare is None:
            bare = not any([node.filters for node in self.nodes])  # noqa: C419 - a generator takes twice as long
            object.__setattr__(self, "_bare", bare)
        return bare

    @property
    def path(self) -> LinearPath:
        """The steps alone, relative to the context."""
        return LinearPath(self.steps)

    def __str__(self) -> str:
        return twig_text(self)


@frozen
class Const:
    """A constant of the subscription: a string, compared as such, or a float."""

    value: str | float


# -- values: what is compared with a constant


@frozen
class StringValue:
    """The string-value of ``twig``'s nodes. A test on it holds if it holds for any of them; with ``first``, for the
    first in document order, or for the empty string if there is none (SEMANTICS 2, 7)."""

    twig: Twig
    first: bool = False


@frozen
class NormalizeSpace:
    of: StringValue


@frozen
class StringLength:
    of: StringValue | NormalizeSpace


@frozen
class Count:
    """How many distinct nodes ``twig`` finds."""

    twig: Twig


Value: TypeAlias = "StringValue | NormalizeSpace | StringLength | Count"


# -- predicates


@frozen
class Bool(Predicate):
    value: bool


@_hash_once
@frozen
class And(Predicate):
    terms: tuple[Predicate, ...]


@_hash_once
@frozen
class Or(Predicate):
    terms: tuple[Predicate, ...]


@_hash_once
@frozen
class Not(Predicate):
    term: Predicate


@_hash_once
@frozen
class Exists(Predicate):
    twig: Twig


@frozen
class NodeIs(Predicate):
    """The context node itself passes this test; the document passes none."""

    kind: str
    ns: str | None = None
    local: str | None = None


@_hash_once
@frozen
class Compare(Predicate):
    """``value op constant``. Numeric when the constant is a float, as it always is for ``< <= > >=`` (SEMANTICS 5)."""

    value: Value
    op: str
    const: Const


@_hash_once
@frozen
class Match(Predicate):
    """``function`` is ``contains`` or ``starts-with``."""

    function: str
    value: StringValue | NormalizeSpace
    const: Const


@frozen
class Position(Predicate):
    """``of op n``, where ``op`` is one of ``= != <= >=``, and ``of`` is

    ``position``: the node's own, from 1; ``last``: how many there are; ``from-end``: last() - position(), from 0.
    """

    of: str
    op: str
    n: int


TRUE, FALSE = Bool(True), Bool(False)


# -- whole subscriptions


@frozen
class Selection:
    """Nodes that a subscription selects: those of ``twig`` below the document, if ``guard`` holds for the document."""

    guard: Predicate
    twig: Twig


@frozen
class Structural:
    """A linear path, of elements with perhaps an attribute or text() at its end: for the path engine alone."""

    path: LinearPath


@frozen
class Pattern:
    """A filter that tree patterns decide: it matches when ``condition`` holds for the document.

    ``selects`` is None for a query that is not a node-set; else their union, in document order, is the result, or
    those nodes of it whose place in it passes ``pick``: ``(//f)[1]``.
    """

    condition: Predicate
    selects: tuple[Selection, ...] | None
    pick: Position | None = None


@frozen
class Reason:
    """What keeps a query from being a tree pattern, and where in its text."""

    text: str
    span: Span


@frozen
class Residual:
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


def walk(pattern: Predicate | Twig) -> Iterator[object]:
    """Yield a pattern and all its parts: predicates, values, twigs and constants, outer ones first."""
    stack: list[object] = [pattern]
    while stack:
        part = stack.pop()
        yield part
        # not by class patterns, which take several times as long
        if isinstance(part, Twig):
            if not part.bare:
                stack.extend(reversed([one for node in part.nodes for one in node.filters]))
        elif isinstance(part, Compare | Match):
            stack += (part.const, part.value)
        elif isinstance(part, Exists | StringValue | Count):
            stack.append(part.twig)
        elif isinstance(part, And | Or):
            stack.extend(reversed(part.terms))
        elif isinstance(part, Not):
            stack.append(part.term)
        elif isinstance(part, NormalizeSpace | StringLength):
            stack.append(part.of)


def own_leaves(predicate: Predicate) -> Iterator[Predicate]:
    """Yield the leaves about the context node itself, in order, not those of filters within branches."""
    stack = [predicate]
    while stack:
        one = stack.pop()
        if isinstance(one, And | Or):
            stack.extend(reversed(one.terms))
        elif isinstance(one, Not):
            stack.append(one.term)
        else:
            yield one


def constants(pattern: Predicate | Twig) -> tuple[Const, ...]:
    """Return the constants in the order of traversal; patterns of one shape differ in nothing else."""
    return tuple([part for part in walk(pattern) if isinstance(part, Const)])


def twig_of(value: Value) -> Twig:
    """Return the branch that a value is of."""
    while isinstance(value, NormalizeSpace | StringLength):
        value = value.of
    return value.twig


def tests_any(value: Value) -> bool:
    """Whether a test of the value holds if it holds for any node of its branch."""
    while isinstance(value, NormalizeSpace | StringLength):
        value = value.of
    return isinstance(value, StringValue) and not value.first


_P = TypeVar("_P", bound="Compare | Match")


def tested_at(test: _P, twig: Twig) -> _P:
    """Return the same test of another branch."""
    return replace(test, value=with_twig(test.value, twig))  # type: ignore[arg-type]


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
    text = predicate._text
    if text is None:
        text = _text(predicate, masked=True)
        object.__setattr__(predicate, "_text", text)
    return text


def predicate_text(predicate: Predicate, masked: bool = False) -> str:
    return shape_text(predicate) if masked else _text(predicate, masked)


def _text(predicate: Predicate, masked: bool) -> str:
    # the most frequent not by a class pattern, which takes several times as long
    if isinstance(predicate, Exists):
        return twig_text(predicate.twig, masked)
    if isinstance(predicate, Compare):
        return f"{_value(predicate.value, masked)} {predicate.op} {_const(predicate.const, masked)}"
    if isinstance(predicate, And):
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
    text = twig._text
    if text is None:
        text = _trunk_text(twig, masked)
        object.__setattr__(twig, "_text", text)
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
    if isinstance(value, StringValue):
        text = twig_text(value.twig, masked)
        return f"string({text})" if value.first else text
    match value:
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
