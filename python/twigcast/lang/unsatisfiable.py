"""Queries of any language that no message can match, and a checker for many of them.

``never`` judges the syntax tree of a condition; this module knows where each language has its conditions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from twigcast.errors import QueryError
from twigcast.ir.pattern import FALSE, And, Compare, Exists, Node, Pattern, Predicate, StringValue, Twig
from twigcast.ir.visit import replace
from twigcast.lang import ast
from twigcast.lang.compile import compile_ast
from twigcast.lang.kinds import kind_of
from twigcast.lang.lexer import check_text
from twigcast.lang.literals import LITERAL, Rest, literal_of, taken_apart, with_sentinels
from twigcast.lang.names import Scope
from twigcast.lang.never import depends_on_constants, never
from twigcast.lang.never_words import CODE, Never
from twigcast.lang.plain import plain
from twigcast.lang.structural import PathCompiler, compiler_for
from twigcast.lang.xpath import parse

_MAX_CACHED = 200_000
_BEFORE = re.compile(r"[<>]=?\s*$")
_AFTER = re.compile(r"\s*[<>]")

Tests = list[tuple[str, str | float]]
"""Comparisons of one value: operators and constants."""
_Group = tuple[tuple[str, int, int], ...]
"""The same of a shape: operators, the number of the literal, and its sign."""
_Shape = tuple[tuple[tuple[str, str], ...], str, str, Rest]
"""Namespaces, default namespace, dialect, and the text without its literals."""


def never_matches(
    query: str,
    namespaces: Mapping[str, str] | None = None,
    default_namespace: str | None = None,
    *,
    dialect: str = "w3c",
    deliver_empty: bool = False,
) -> QueryError | None:
    """Return the error for a query that no message can match; None for one that some message may match.

    Raises QueryError for a text that is not a query. A transform with ``deliver_empty`` delivers for every message.
    """
    found: Never | None
    match kind_of(query):
        case "transform":
            found = None if deliver_empty else _transform(query, namespaces, default_namespace)
        case "correlate":
            scope = Scope(namespaces or {}, default_namespace or "")
            check_text(query)
            from twigcast.lang.xscl.parser import XsclParser  # only those who correlate pay for it

            parser = XsclParser(query, scope, None)
            try:
                parser.parse()
            except QueryError as error:
                if error.code == CODE:
                    return error
                raise
            found = parser.never[0] if parser.never else None
        case _:
            found = _filter(parse(query, namespaces, default_namespace, dialect=dialect), query)
    return None if found is None else found.error(query)


def _filter(expr: ast.Expr, source: str) -> Never | None:
    found = never(expr)
    if found is not None:
        return found
    # Tree patterns know more about names and places: a/self::b, [position() > last()].
    match compile_ast(expr, source):
        case Pattern(condition) if condition == FALSE:
            return Never("its condition is never true", expr.span)
    return None


def _transform(query: str, namespaces: Mapping[str, str] | None, default_namespace: str | None) -> Never | None:
    check_text(query)
    from twigcast.lang.flwr.clauses import Clauses  # only those who transform pay for it

    clauses = Clauses(query, Scope(namespaces or {}, default_namespace or ""))
    clauses.parse()
    binding, where = clauses.binding_path, clauses.condition
    if binding is None or not binding.steps:
        return None
    *before, last = binding.steps
    if where is not None:
        last = replace(last, predicates=(*last.predicates, where))
    return never(ast.LocationPath(True, (*before, last), binding.span))


class NeverMatches:
    """Checks many queries. Texts that differ in constants only are judged once, but for constants that matter."""

    def __init__(self) -> None:
        # By shape: the comparisons with constants that are about one value, of queries that may match otherwise.
        self._possible: dict[_Shape, tuple[_Group, ...]] = {}

    def __call__(
        self,
        query: str,
        namespaces: Mapping[str, str] | None = None,
        default_namespace: str | None = None,
        *,
        dialect: str = "w3c",
        deliver_empty: bool = False,
    ) -> QueryError | None:
        """Return what ``never_matches`` returns."""
        compiler = compiler_for(namespaces, default_namespace)
        path = None if "[" in query else compiler.fast(query)
        if path is not None and (path.steps[0].kind == "element" or path.steps[0].axis == "descendant"):
            return None
        rest, literals = taken_apart(query)
        key = tuple(sorted(namespaces.items())) if namespaces else (), default_namespace or "", dialect, rest
        groups = self._possible.get(key)
        if groups is not None and all(_has_a_value(_tests(group, literals)) for group in groups):
            return None
        if groups is None:
            if kind_of(query) != "filter":
                return never_matches(query, namespaces, default_namespace, dialect=dialect, deliver_empty=deliver_empty)
            pattern = plain(query, compiler)
            compared = None if pattern is None else _compared_twice(pattern)
            if compared is not None and all(map(_has_a_value, compared)):
                if compared:
                    self._learn(key, query, compiler, literals)
                elif not _orders_strings(rest):
                    self._remember(key, ())
                return None
        expr = parse(query, namespaces, default_namespace, dialect=dialect)
        found = _filter(expr, query)
        if found is None and not depends_on_constants(expr):
            self._remember(key, ())
        return None if found is None else found.error(query)

    def _learn(self, key: _Shape, query: str, compiler: PathCompiler, literals: Sequence[str]) -> None:
        """Find out which numbers of a text are compared with one value, by putting sentinels in their places."""
        if _orders_strings(key[-1]):
            return
        numbers = [i for i, literal in enumerate(literals) if literal[0] not in "\"'"]
        probe = plain(with_sentinels(LITERAL.split(query), numbers), compiler)
        compared = None if probe is None else _compared_twice(probe)
        if compared is None:
            return
        groups: list[_Group] = []
        for tests in compared:
            places = [(op, literal_of(const)) for op, const in tests]
            group = tuple((op, *place) for op, place in places if place is not None)
            if len(group) < len(tests):
                return  # with strings: for the full judgement
            groups.append(group)
        self._remember(key, tuple(groups))

    def _remember(self, key: _Shape, groups: tuple[_Group, ...]) -> None:
        if len(self._possible) >= _MAX_CACHED:
            self._possible.clear()
        self._possible[key] = groups


def _tests(group: _Group, literals: Sequence[str]) -> Tests:
    """Return the comparisons of one text."""
    return [(op, float(literals[i]) * sign) for op, i, sign in group]


def _orders_strings(rest: Rest) -> bool:
    """Tell whether ``<`` or ``>`` compares with a string: whether that is a number decides."""
    return any(
        quote is not None and (_BEFORE.search(rest[i - 1] or "") or _AFTER.match(rest[i + 1] or ""))
        for i, quote in enumerate(rest)
        if i % 2
    )


def _compared_twice(pattern: Pattern) -> list[Tests] | None:
    """Return the comparisons of a pattern of the plain lane that are about one and the same value, by value.

    Only ``.`` and an attribute of the node have one value. None: there are conditions that are not understood."""
    found: list[Tests] = []
    stack: list[Predicate] = [pattern.condition]
    while stack:
        one = stack.pop()
        terms = one.terms if isinstance(one, And) else (one,)
        groups: dict[tuple[Node, ...], Tests] = {}
        for term in terms:
            if isinstance(term, Compare) and isinstance(term.value, StringValue):
                nodes = term.value.twig.nodes
                if not nodes or (len(nodes) == 1 and _is_attribute(nodes[0])):
                    groups.setdefault(nodes, []).append((term.op, term.const.value))
                stack += _filters(term.value.twig)
            elif isinstance(term, Exists):
                stack += _filters(term.twig)
            else:
                return None
        found += [tests for tests in groups.values() if len(tests) > 1]
    return found


def _is_attribute(node: Node) -> bool:
    step = node.step
    return step.axis == "child" and step.kind == "attribute" and step.ns is not None and step.local is not None


def _filters(twig: Twig) -> list[Predicate]:
    return [one for node in twig.nodes for one in node.filters]


def _has_a_value(tests: Tests) -> bool:
    """Tell whether some value passes comparisons of the kind that most are: one range, or equalities."""
    low, high = -math.inf, math.inf
    open_low = open_high = False
    for op, const in tests:
        if isinstance(const, str) or op == "!=":
            return False  # for the full judgement
        if op in (">", ">=", "=") and (const > low or (const == low and op == ">")):
            low, open_low = const, op == ">"
        if op in ("<", "<=", "=") and (const < high or (const == high and op == "<")):
            high, open_high = const, op == "<"
    return low < high or (low == high and not open_low and not open_high)
