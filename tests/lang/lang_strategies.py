"""Random syntax trees over a small vocabulary, for the property tests of the language."""

from __future__ import annotations

from hypothesis import strategies as st

from twigcast.errors import Span
from twigcast.lang import ast
from twigcast.lang.xpath import AXES

HERE = Span(0, 0)
NAMES = ["a", "b", "c", "d"]
STRINGS = ["", "1", "2", "x", "xy", " x ", "1.0"]
NUMBERS = [0.0, 1.0, 2.0, 3.0, 0.5]
COMMON_AXES = ["child"] * 6 + ["descendant", "descendant-or-self", "self", "attribute", "parent", "ancestor"]


def numbers() -> st.SearchStrategy[ast.Expr]:
    return st.sampled_from(NUMBERS).map(lambda value: ast.Number(value, HERE))


def strings() -> st.SearchStrategy[ast.Expr]:
    return st.sampled_from(STRINGS).map(lambda value: ast.String(value, HERE))


def name_strings() -> st.SearchStrategy[ast.Expr]:
    return st.sampled_from(["", "a", "b", "n:a", "p", "urn:n"]).map(lambda value: ast.String(value, HERE))


def call(name: str, *arguments: ast.Expr) -> ast.Expr:
    return ast.Call(name, arguments, HERE)


def calls(name: str, *arguments: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Expr]:
    return st.tuples(*arguments).map(lambda given: ast.Call(name, given, HERE))


@st.composite
def tests(draw: st.DrawFn) -> ast.NameTest | ast.KindTest:
    kind = draw(st.sampled_from(["name"] * 6 + ["*", "*", "ns", "ns*", "{}*", "text", "node", "comment", "pi"]))
    match kind:
        case "name":
            return ast.NameTest("", draw(st.sampled_from(NAMES)), HERE)
        case "*":
            return ast.NameTest(None, None, HERE)
        case "ns":
            return ast.NameTest("urn:n", draw(st.sampled_from(NAMES)), HERE)
        case "ns*":
            return ast.NameTest("urn:n", None, HERE)
        case "{}*":
            return ast.NameTest("", None, HERE)
        case "pi":
            target = draw(st.sampled_from([None, None, "p"]))
            return ast.KindTest("processing-instruction", target, HERE)
    return ast.KindTest(kind, None, HERE)


@st.composite
def steps(draw: st.DrawFn, predicates: st.SearchStrategy[ast.Expr], axes: list[str]) -> tuple[ast.AxisStep, ...]:
    made: list[ast.AxisStep] = []
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.integers(0, 3)) == 0:
            made.append(ast.AxisStep("descendant-or-self", ast.KindTest("node", None, HERE), (), HERE))
        filters = draw(st.lists(predicates, max_size=2)) if draw(st.integers(0, 2)) == 0 else []
        axis, test = draw(st.sampled_from(axes)), draw(tests())
        if axis == "namespace" and isinstance(test, ast.NameTest) and test.ns:
            # a namespace node's own name is in no namespace, so it never passes; libxml2 looks at what it stands for
            test = ast.NameTest("", test.local, HERE)
        made.append(ast.AxisStep(axis, test, tuple(filters), HERE))
    return tuple(made)


@st.composite
def paths(draw: st.DrawFn, predicates: st.SearchStrategy[ast.Expr], axes: list[str]) -> ast.Expr:
    absolute = draw(st.integers(0, 5)) == 0
    if absolute and draw(st.integers(0, 9)) == 0:
        return ast.LocationPath(True, (), HERE)
    return ast.LocationPath(absolute, draw(steps(predicates, axes)), HERE)


@st.composite
def extended(draw: st.DrawFn, inner: st.SearchStrategy[ast.Expr], axes: list[str]) -> ast.Expr:
    """One more level around ``inner``, which gives expressions of any type."""
    path = paths(inner, axes)
    kind = draw(st.integers(0, 11))
    op = draw(st.sampled_from(["=", "=", "!=", "<", "<=", ">", ">="]))
    constant = st.one_of(strings(), numbers())
    match kind:
        case 0 | 1 | 2:
            return draw(path)
        case 3 | 4:
            sides = [draw(st.one_of(path, path, calls("count", path), calls("string", path))), draw(constant)]
            if draw(st.booleans()):
                sides.reverse()
            return ast.Comparison(op, sides[0], sides[1], HERE)
        case 5:
            return ast.Comparison(op, draw(inner), draw(inner), HERE)
        case 6:
            operands = tuple(draw(st.lists(inner, min_size=2, max_size=3)))
            return ast.Logical(draw(st.sampled_from(["and", "or"])), operands, HERE)
        case 7:
            return draw(calls("not", inner))
        case 8:
            return ast.Union((draw(path), draw(path)), HERE)
        case 9:
            filters = tuple(draw(st.lists(st.one_of(inner, positions()), max_size=2)))
            more = draw(steps(inner, axes)) if not filters or draw(st.booleans()) else ()
            return ast.FilterPath(draw(path), filters, more, HERE)
        case 10:
            return draw(scalars(inner, path))
    return draw(positions())


@st.composite
def scalars(draw: st.DrawFn, inner: st.SearchStrategy[ast.Expr], path: st.SearchStrategy[ast.Expr]) -> ast.Expr:
    unary = ["string", "number", "boolean", "string-length", "normalize-space", "floor", "ceiling", "round", "not"]
    match draw(st.integers(0, 8)):
        case 0 | 1:
            name = draw(st.sampled_from(["contains", "starts-with", "substring-before", "substring-after"]))
            return draw(calls(name, st.one_of(path, inner), strings()))
        case 2:
            return draw(calls(draw(st.sampled_from(unary)), inner))
        case 3:
            return draw(calls(draw(st.sampled_from(["count", "sum", "local-name", "name", "namespace-uri"])), path))
        case 7:
            return draw(calls("translate", inner, strings(), strings()))
        case 8:
            name = draw(st.sampled_from(["local-name", "namespace-uri", "name"]))
            return ast.Comparison(draw(st.sampled_from(["=", "!="])), call(name), draw(name_strings()), HERE)
        case 4:
            op = draw(st.sampled_from(["+", "-", "*", "div", "mod"]))
            return ast.Arithmetic(op, draw(inner), draw(inner), HERE)
        case 5:
            return ast.Negation(draw(inner), HERE)
    given = draw(st.sampled_from(["string", "number", "string-length", "normalize-space", "local-name", "true"]))
    return call(given)


@st.composite
def positions(draw: st.DrawFn) -> ast.Expr:
    op = draw(st.sampled_from(["=", "=", "!=", "<", "<=", ">", ">="]))
    number = draw(numbers())
    match draw(st.integers(0, 4)):
        case 0 | 1:
            return number
        case 2:
            return ast.Comparison(op, call("position"), number, HERE)
        case 3:
            return call("last")
    last = call("last")
    right = draw(st.sampled_from([last, ast.Arithmetic("-", last, number, HERE), number]))
    return ast.Comparison(op, draw(st.sampled_from([call("position"), last])), right, HERE)


def expressions(axes: list[str] | None = None) -> st.SearchStrategy[ast.Expr]:
    """Expressions over the whole grammar; ``axes`` weighs the axes (default: all, the common ones more often)."""
    chosen = axes or COMMON_AXES + list(AXES)
    leaves = st.one_of(paths(positions(), chosen), paths(positions(), chosen), strings(), numbers(), positions())
    return st.recursive(leaves, lambda inner: extended(inner, chosen), max_leaves=8)
