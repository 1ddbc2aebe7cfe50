"""Find queries that no valid message can match, with the step to blame and what the schema allows in its place.

What no message at all can match is found by ``twigcast.lang.unsatisfiable``, without a schema; it is asked first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from twigcast.errors import QueryError, Span
from twigcast.ir.pattern import Exists, Node, Pattern, Predicate, Residual, Structural, Twig
from twigcast.ir.transform import Transform
from twigcast.lang import unsatisfiable
from twigcast.lang.compile import compile_query
from twigcast.lang.flwr import is_transform, parse_transform
from twigcast.lang.never_words import CODE
from twigcast.lang.xscl import is_correlation
from twigcast.schema import Schema
from twigcast.schema.graph import ElementGraph
from twigcast.schema.satisfiable import Impossible, impossible, narrowed, never_true

_LITERAL = re.compile(r""""[^"]*"|'[^']*'""")
_NAME = re.compile(r"[\w.\-]+")


def check(
    schema: Schema,
    query: str,
    *,
    namespaces: Mapping[str, str] | None = None,
    default_namespace: str | None = None,
    dialect: str = "w3c",
) -> None:
    """Raise QueryError for a query that no valid message matches. Only what is sure is refused."""
    error = never_matches(schema, query, namespaces=namespaces, default_namespace=default_namespace, dialect=dialect)
    if error is not None:
        raise error


def never_matches(
    schema: Schema | None,
    query: str,
    *,
    namespaces: Mapping[str, str] | None = None,
    default_namespace: str | None = None,
    dialect: str = "w3c",
) -> QueryError | None:
    """Return the error for a query that no valid message matches; None for one that some may match."""
    error = unsatisfiable.never_matches(query, namespaces, default_namespace, dialect=dialect)
    if error is not None or schema is None or is_correlation(query):
        return error
    if is_transform(query):
        never, why = _transform(schema.graph, parse_transform(query, namespaces, default_namespace))
    else:
        condition = _condition(query, namespaces, default_namespace, dialect)
        never, why = (False, None) if condition is None else never_true(schema.graph, condition)
    if not never:
        return None
    if why is None:
        text = "no valid message can match: the condition is never true"
        return QueryError(CODE, text, source=query, span=Span(0, len(query)))
    return QueryError(
        CODE, f"no valid message can match: {why.text}", hint=why.hint, source=query, span=_place(query, why)
    )


def _condition(
    query: str, namespaces: Mapping[str, str] | None, default_namespace: str | None, dialect: str
) -> Predicate | None:
    match compile_query(query, namespaces, default_namespace, dialect=dialect):
        case Structural(path):
            return Exists(Twig(tuple(Node(step) for step in path.steps)))
        case Pattern(condition):
            return condition
        case Residual(necessary):
            return necessary


def _transform(graph: ElementGraph, transform: Transform) -> tuple[bool, Impossible | None]:
    binding, where = transform.binding.twig, transform.where
    if binding is None:
        return False, None
    why = impossible(graph, binding)
    if why is not None:
        return True, why
    if where is None or where.predicate is None or not binding.nodes or binding.nodes[-1].step.kind != "element":
        return False, None
    steps = [node.step for node in binding.nodes]
    left, why = narrowed(graph, where.predicate, graph.walk(steps)[-1], "".join(map(str, steps)))
    return not left, why


def _place(query: str, why: Impossible) -> Span:
    """Return the step in the text: the first of its name after the steps before it, for patterns know no places."""
    text = _LITERAL.sub(lambda found: " " * len(found[0]), query)
    at = 0
    for name in _NAME.findall(re.sub(r"\{[^}]*\}", "", why.path)):
        at = _after(text, name, at)
    wanted = why.step.local or {"text": "text", "comment": "comment", "node": "node"}.get(why.step.kind, "*")
    for start in (at, 0):
        found = re.compile(rf"(?<![\w.\-]){re.escape(wanted)}(?![\w.\-])").search(text, start)
        if found is not None:
            return Span(*found.span())
    return Span(0, len(query))


def _after(text: str, name: str, at: int) -> int:
    found = re.compile(rf"(?<![\w.\-]){re.escape(name)}(?![\w.\-])").search(text, at)
    return at if found is None else found.end()
