"""Tree patterns -> XPath 1.0: what a rewritten pattern is handed to an engine as, ours or any other."""

from __future__ import annotations

import math

from twigcast.chunk.downward import Raw
from twigcast.ir.pattern import (
    And,
    Bool,
    Compare,
    Const,
    Count,
    Exists,
    Match,
    Node,
    NodeIs,
    NormalizeSpace,
    Not,
    Or,
    Position,
    Predicate,
    StringLength,
    StringValue,
    Twig,
    Value,
    tested_at,
    tests_any,
    twig_of,
)
from twigcast.lang.names import XML_NAMESPACE
from twigcast.lang.printer import Printer, number_text, quoted


class NoText(Exception):
    """XPath 1.0 cannot say this in so many words."""


class Writer:
    """Writes patterns of one expression."""

    def __init__(self) -> None:
        self._prefixes: dict[str, str] = {}
        self._printer = Printer(self._prefixes)

    @property
    def prefixes(self) -> dict[str, str]:
        """Prefix -> URI, for all that was written."""
        return {prefix: uri for uri, prefix in self._prefixes.items() if uri != XML_NAMESPACE}

    def path(self, twig: Twig) -> str:
        """Return a path from the document."""
        return "".join(map(self._node, twig.nodes)) or "/"

    def condition(self, predicate: Predicate) -> str:
        """Return a condition on the document: the paths in it are absolute."""
        return self._predicate(predicate, top=True)

    # -- paths

    def _branch(self, twig: Twig, top: bool = False) -> str:
        """Return a path from the context node."""
        if top:
            return self.path(twig)
        text = "".join(map(self._node, twig.nodes))
        return "." + text if text.startswith("//") or not text else text[1:]

    def _node(self, node: Node) -> str:
        step = node.step
        text = ("//" if step.axis == "descendant" else "/") + self._test(step.kind, step.ns, step.local)
        return text + "".join(f"[{self._filter(one)}]" for one in node.filters)

    def _test(self, kind: str, ns: str | None, local: str | None) -> str:
        if kind == "pi":
            return f"processing-instruction({'' if local is None else quoted(local)})"
        if kind not in ("element", "attribute"):
            return f"{kind}()"
        return ("@" if kind == "attribute" else "") + self._name(ns, local)

    def _name(self, ns: str | None, local: str | None) -> str:
        if ns is None and local is not None:
            return f"*[local-name() = {quoted(local)}]"
        return self._printer.name(ns, local)

    # -- predicates

    def _filter(self, predicate: Predicate) -> str:
        return self._predicate(predicate, top=False)

    def _predicate(self, predicate: Predicate, *, top: bool) -> str:
        match predicate:
            case And(terms):
                return " and ".join(self._nested(term, top) for term in terms)
            case Or(terms):
                return " or ".join(self._nested(term, top) for term in terms)
            case Not(term):
                return f"not({self._predicate(term, top=top)})"
            case Bool(value):
                return "true()" if value else "false()"
            case Exists(twig):
                return self._branch(twig, top)
            case Compare(StringValue(twig, False), op, const):
                return f"{self._branch(twig, top)} {op} {_constant(const)}"
            case Compare(value=value) | Match(value=value) if tests_any(value) and twig_of(value).nodes:
                # of any node, where XPath's functions look at the first one
                return f"{self._branch(twig_of(value), top)}[{self._filter(tested_at(predicate, Twig()))}]"
            case Compare(value, op, const):
                return f"{self._value(value, top)} {op} {_constant(const)}"
            case Match(function, value, const):
                return f"{function}({self._value(value, top)}, {_constant(const)})"
            case Position(of, op, n):
                return f"{'last() - position()' if of == 'from-end' else f'{of}()'} {op} {n}"
            case Raw(expr):
                return self._printer.expr(expr, 0)
            case NodeIs("attribute"):
                raise NoText("whether a node is an attribute")
            case NodeIs(kind, ns, local):
                return f"self::{self._test(kind, ns, local)}"
        raise NoText(type(predicate).__name__)

    def _nested(self, term: Predicate, top: bool) -> str:
        text = self._predicate(term, top=top)
        return f"({text})" if isinstance(term, And | Or | Raw) else text

    def _value(self, value: Value, top: bool) -> str:
        match value:
            case StringValue(twig, first):
                text = self._branch(twig, top)
                return f"string({text})" if first else text
            case NormalizeSpace(of):
                return f"normalize-space({self._value(of, top)})"
            case StringLength(of):
                return f"string-length({self._value(of, top)})"
            case Count(twig):
                return f"count({self._branch(twig, top)})"


def _constant(const: Const) -> str:
    value = const.value
    if isinstance(value, str):
        if '"' in value and "'" in value:
            raise NoText("a string with both quotes")
        return quoted(value)
    if math.isnan(value):
        raise NoText("not a number")
    return f"-{number_text(-value)}" if value < 0 else number_text(value)
