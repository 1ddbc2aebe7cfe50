"""Syntax tree -> canonical text: our own (``{uri}name``), or plain XPath 1.0 with a table of prefixes for libxml2."""

from __future__ import annotations

from decimal import Decimal

from twigcast.lang import ast
from twigcast.lang.names import XML_NAMESPACE

_LEVELS = {"or": 1, "and": 2, "=": 3, "!=": 3, "<": 4, "<=": 4, ">": 4, ">=": 4, "+": 5, "-": 5}
_LEVELS |= {"*": 6, "div": 6, "mod": 6}
_UNARY, _UNION, _PATH = 7, 8, 9


def to_text(expr: ast.Expr) -> str:
    """Canonical text; it parses, without any declared namespaces, to an equal tree."""
    return Printer(None).expr(expr, 0)


def to_xpath(expr: ast.Expr) -> tuple[str, dict[str, str]]:
    """The same in the letter of XPath 1.0, and the prefixes that it uses."""
    prefixes: dict[str, str] = {}
    text = Printer(prefixes).expr(expr, 0)
    return text, {prefix: uri for uri, prefix in prefixes.items()}


class Printer:
    """``prefixes`` (URI -> prefix) grows with what is printed; None prints ``{uri}name``."""

    def __init__(self, prefixes: dict[str, str] | None) -> None:
        self.prefixes = prefixes

    def expr(self, expr: ast.Expr, least: int) -> str:
        """``expr`` where an operator of level ``least`` surrounds it: in parentheses if it binds less tightly."""
        match expr:
            case ast.Number(value):
                return number_text(value)
            case ast.String(value):
                return quoted(value)
            case ast.Call(name, arguments):
                return f"{name}({', '.join(self.expr(argument, 0) for argument in arguments)})"
            case ast.FilterPath(primary, predicates, steps):
                text = self.expr(primary, 0)
                if not isinstance(primary, ast.Call):
                    text = f"({text})"
                text += self.predicates(predicates)
                return text + "/" + self.steps(steps, True) if steps else text
            case ast.LocationPath(absolute, steps):
                if not steps:
                    # A name or "*" after a bare slash would be read as its step.
                    return "(/)" if least else "/"
                return "/" * absolute + self.steps(steps, absolute)
            case ast.Union(operands):
                level, text = _UNION, " | ".join(self.expr(operand, _PATH) for operand in operands)
            case ast.Negation(operand):
                level, text = _UNARY, "-" + self.expr(operand, _UNARY)
            case ast.Logical(op, operands):
                level = _LEVELS[op]
                text = f" {op} ".join(self.expr(operand, level + 1) for operand in operands)
            case ast.Comparison(op, left, right) | ast.Arithmetic(op, left, right):
                level = _LEVELS[op]
                text = f"{self.expr(left, level)} {op} {self.expr(right, level + 1)}"
        return f"({text})" if level < least else text

    def steps(self, steps: tuple[ast.AxisStep, ...], after_slash: bool) -> str:
        parts: list[str] = []
        for at, step in enumerate(steps):
            short = after_slash if at == 0 else parts[-1] != ""
            parts.append("" if short and is_any_depth(step) and at + 1 < len(steps) else self.step(step))
        return "/".join(parts)

    def step(self, step: ast.AxisStep) -> str:
        axis = {"child": "", "attribute": "@"}.get(step.axis, f"{step.axis}::")
        test = step.test
        if isinstance(test, ast.KindTest):
            if test.kind == "node" and not step.predicates and step.axis in ("self", "parent"):
                return "." if step.axis == "self" else ".."
            target = quoted(test.target) if test.target is not None else ""
            return f"{axis}{test.kind}({target}){self.predicates(step.predicates)}"
        return axis + self.name(test.ns, test.local) + self.predicates(step.predicates)

    def name(self, ns: str | None, local: str | None) -> str:
        if ns is None:
            return "*"
        if ns == "":
            # XPath 1.0 has no test for "any name in no namespace"; a first predicate says the same.
            return local or ("{}*" if self.prefixes is None else "*[namespace-uri() = '']")
        if self.prefixes is None:
            return f"{{{ns}}}{local or '*'}"
        if ns not in self.prefixes:
            self.prefixes[ns] = "xml" if ns == XML_NAMESPACE else f"ns{len(self.prefixes)}"
        return f"{self.prefixes[ns]}:{local or '*'}"

    def predicates(self, predicates: tuple[ast.Expr, ...]) -> str:
        return "".join(f"[{self.expr(predicate, 0)}]" for predicate in predicates)


def is_any_depth(step: ast.AxisStep) -> bool:
    """Whether this is the step that ``//`` abbreviates."""
    test = step.test
    if step.axis != "descendant-or-self" or step.predicates or not isinstance(test, ast.KindTest):
        return False
    return test.kind == "node"


def quoted(value: str) -> str:
    """A literal; XPath 1.0 has no escapes, so a parsed string never holds both quotes."""
    return f'"{value}"' if '"' not in value else f"'{value}'"


def number_text(value: float) -> str:
    """A number literal: no sign and no exponent in XPath 1.0."""
    if value == float("inf"):
        return "1" + "0" * 309
    text = format(Decimal(repr(value)), "f")
    return text[:-2] if text.endswith(".0") else text
