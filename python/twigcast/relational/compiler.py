"""Subscriptions as rows of predicates: checked, split into shape and constants, and compiled once per shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twigcast.engine import Subscription
from twigcast.engine.results import check_result
from twigcast.errors import OptionError, QueryError, Span
from twigcast.lang.flwr import is_transform
from twigcast.lang.names import check_namespaces
from twigcast.lang.xpath import check_dialect
from twigcast.lang.xscl import is_correlation
from twigcast.relational import compile as compiling
from twigcast.relational import reference as references
from twigcast.relational.refuse import Refused, refusal
from twigcast.shape import Shapes, Template, scope_of


class Compiler:
    def __init__(self, namespaces: Mapping[str, str], columns: Callable[[], list[str]]) -> None:
        """``columns`` tells which columns of reference data there are, as ``table.column``."""
        self.namespaces = dict(namespaces)
        self._columns = columns
        self._shapes = Shapes()
        self._compiled: dict[Template, tuple[compiling.Conjunction, ...]] = {}

    def compile(self, s: Subscription) -> list[list[compiling.Row]]:
        """The conjunctions of a subscription, predicates in the order of their evaluation. Raises QueryError."""
        if not isinstance(s.query, str):
            raise OptionError("bad-query", f"a query is a string, not {type(s.query).__name__}")
        check_dialect(s.dialect)
        check_result(s.result)
        if s.result != "match":
            hint = "the relational engine tells which messages match; leave the result out"
            raise OptionError("bad-result", f"the relational engine gives no {s.result}", hint=hint)
        if is_transform(s.query):
            text = "a transform makes new messages, which tables do not"
            hint = "leave --engine relational out"
            raise QueryError("not-relational", text, hint=hint, source=s.query, span=Span(0, len(s.query)))
        if is_correlation(s.query):
            text = "a correlation ties messages together, which are matched one by one here"
            hint = "leave --engine relational out"
            raise QueryError("not-relational", text, hint=hint, source=s.query, span=Span(0, len(s.query)))
        check_namespaces(s.namespaces, s.default_namespace)
        namespaces = {**self.namespaces, **(s.namespaces or {})}
        if "$" not in s.query:
            return self._compile(s, s.query, namespaces)
        query = references.as_literals(s.query, self._columns())
        try:
            return self._compile(s, query, namespaces)
        except QueryError as error:
            raise references.as_written(error, s.query) from None

    def _compile(self, s: Subscription, query: str, namespaces: dict[str, str]) -> list[list[compiling.Row]]:
        template, literals = self._shapes.split(query, scope_of(namespaces, s.default_namespace, s.dialect))
        constants = template.constants(literals)
        found = self._compiled.get(template)
        if found is None:
            found = compiling.conjunctions(template, query, namespaces)
            if template.kept:
                self._compiled[template] = found
        try:
            made = [compiling.rows(conjunction, constants) for conjunction in found]
            if query != s.query and references.named(query) != references.used(made):
                raise Refused("reference")
        except Refused as error:
            raise refusal(error.what, query, namespaces) from None
        return [rows for rows in made if rows is not None]

    def declared(self, s: Subscription) -> dict[str, str]:
        """The prefixes that a query may use, the engine's among them: who opens the database next may have others."""
        namespaces = {**self.namespaces, **(s.namespaces or {})}
        return {prefix: uri for prefix, uri in namespaces.items() if f"{prefix}:" in s.query}
