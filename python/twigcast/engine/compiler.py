"""From a subscription to what the kernel is given: a shape of filter and its constants, or the scope of a transform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twigcast.engine.results import check_deliver_empty, check_result, check_selects
from twigcast.errors import OptionError, QueryError, Span
from twigcast.ir.pattern import Reason, Residual
from twigcast.lang import ast
from twigcast.lang.context import at_document as from_document
from twigcast.lang.flwr import is_transform, parse_transform
from twigcast.lang.kinds import check_dialect_of
from twigcast.lang.names import check_namespaces
from twigcast.lang.shape import Scope, Shapes, Template, scope_of
from twigcast.lang.structural import compiler_for
from twigcast.lang.xpath import check_dialect, parse
from twigcast.plan.access import ANYWAY, ValuePath
from twigcast.plan.planner import Plan
from twigcast.subscription import Subscription, check_query

if TYPE_CHECKING:
    from twigcast.ir.transform import Transform


@dataclass(frozen=True, slots=True)
class TextPath:
    """A path to a text in messages, such as their time: that of the first node which it selects."""

    query: str
    namespaces: tuple[tuple[str, str], ...] = ()

    @property
    def expression(self) -> ast.Expr:
        """The path from the document. Raises QueryError if it is none."""
        check_query(self.query)
        expression = from_document(parse(self.query, dict(self.namespaces), None))
        if ast.type_of(expression) != ast.NODE_SET:
            span = Span(0, len(self.query))
            raise QueryError("not-a-node-set", "the query selects no node", source=self.query, span=span)
        return expression


class Compiler:
    """Compiles the subscriptions of an engine. Each shape of filter is parsed and planned once."""

    def __init__(self, namespaces: Mapping[str, str], shapes: Shapes) -> None:
        self.shapes = shapes
        self._namespaces = namespaces
        self._scope = scope_of(namespaces, None)
        self._paths = compiler_for(namespaces, None)

    def split(self, s: Subscription) -> tuple[Template, Sequence[str]]:
        """Split a filter into its shape and its constants, in the order in which the shape uses them."""
        if s.deliver_empty is not False:
            check_deliver_empty(s.deliver_empty, is_transform=False)
        if s.dialect != "w3c":
            check_dialect(s.dialect)
        if s.result != "match":
            check_result(s.result)
        if not s.namespaces and not s.default_namespace and s.dialect == "w3c":
            scope, compiler = self._scope, self._paths
        else:
            check_namespaces(s.namespaces, s.default_namespace)
            namespaces = {**self._namespaces, **(s.namespaces or {})}
            scope = scope_of(namespaces, s.default_namespace, s.dialect)
            compiler = compiler_for(namespaces, s.default_namespace)
        path = None if "[" in s.query else compiler.fast(s.query)
        if path is not None and s.result == "match":
            return Template(Plan((ValuePath(path.steps),), None, ())), ()
        template, literals = self.shapes.split(s.query, scope)
        if s.result != "match":
            check_selects(s.query, s.result, template.plan)
        return template, literals

    def scope_of_transform(self, s: Subscription) -> Scope:
        """Return the namespaces of a transform, or raise what is wrong beside its query."""
        check_result(s.result)
        if s.result != "match":
            hint = 'leave "result" out: a transform always gives the message it makes'
            raise OptionError("bad-result", f"a transform has no {s.result}", hint=hint)
        check_dialect_of(s.query, s.dialect)
        check_deliver_empty(s.deliver_empty, is_transform=True)
        namespaces = {**self._namespaces, **(s.namespaces or {})} if s.namespaces else self._namespaces
        return scope_of(namespaces, s.default_namespace)


def is_transform_of(s: Subscription) -> bool:
    """Return whether a subscription is a transform. Raises OptionError if its query is not text."""
    check_query(s.query)
    return s.query[:1] != "/" and is_transform(s.query)


# Steps of a transform's path.
MAX_STEPS = 1000


def parse_transform_of(text: str, scope: Scope) -> Transform:
    """Parse a transform in a scope, and refuse paths of more steps than any message has levels."""
    namespaces, default, _ = scope
    transform = parse_transform(text, dict(namespaces), default or None)
    where = "" if transform.where is None else transform.where.text
    for path in (transform.binding.text, where, *(path.text for path in transform.return_paths)):
        if path.count("/") > MAX_STEPS:
            raise QueryError(
                "too-many-steps",
                f"a path of the transform has more than {MAX_STEPS} steps",
                hint="no message is that deep; use // to skip levels",
                source=text,
                span=Span(0, len(text)),
            )
    return transform


def undecided(s: Subscription, namespaces: Mapping[str, str]) -> Plan:
    """Return a plan for a query that the kernel's patterns cannot express: it is evaluated on every message."""
    scope = {**namespaces, **(s.namespaces or {})}
    expr = from_document(parse(s.query, scope, s.default_namespace, dialect=s.dialect))
    reason = Reason("the kernel has no such test", Span(0, len(s.query)))
    residual = Residual(None, (reason,), expr, ast.type_of(expr) == ast.NODE_SET)
    return Plan((ANYWAY,), None, (), residual)
