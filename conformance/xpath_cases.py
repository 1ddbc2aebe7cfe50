"""The XPath suites of .NET, Jaxen and libxml2 as cases of one form: an expression, its context, and whether it holds.

A subscription is a condition, so every case is one. What a suite says about a result gives several: its effective
boolean value, how many nodes there are, and the value itself.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path

from lxml import etree

from twigcast.errors import TwigcastError
from twigcast.lang import ast
from twigcast.lang.xpath import parse

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SUITES = ("dotnet", "jaxen", "libxml2")
_VARIABLES = "https://github.com/jaxen-xpath/jaxen/test-harness/var"


@dataclass(frozen=True, eq=False)
class Case:
    """Does ``expr`` hold with the first node of ``context`` as its context node?"""

    id: str
    document: bytes = field(repr=False)
    expr: str
    expected: str  # true, false, or refused
    context: str = "/"
    namespaces: Mapping[str, str] = field(default_factory=dict)

    @property
    def suite(self) -> str:
        return self.id.partition("/")[0]

    @property
    def is_truth(self) -> bool:
        """Whether this is the suite's own expression, and not one that we made to look closer at its result."""
        return "#" not in self.id

    def also(self, what: str, expr: str) -> Case:
        return replace(self, id=f"{self.id}#{what}", expr=expr, expected="true")


def cases() -> list[Case]:
    """Every case of every suite; empty where the suites are absent."""
    if not all((DATA / f"xpath-{suite}").is_dir() for suite in SUITES):
        return []
    return [*_dotnet(DATA / "xpath-dotnet"), *_jaxen(DATA / "xpath-jaxen/core"), *_libxml2(DATA / "xpath-libxml2")]


def _joined(context: str, path: str) -> str:
    """A path from the document, for what has to be one in libxml2: lxml starts others at the root element."""
    if path.startswith(("/", "(")):
        return path
    return f"{context.removesuffix('/')}/{path}"


# -- what a suite expects, as conditions


def _node_set(case: Case, count: int) -> Iterator[Case]:
    yield replace(case, expected=_truth(count > 0))
    yield case.also("count", f"count({case.expr}) = {count}")


def _string(case: Case, value: str) -> Iterator[Case]:
    yield replace(case, expected=_truth(value != ""))
    yield case.also("value", f"string({case.expr}) = {_literal(value)}")


def _number(case: Case, value: float, digits: int | None = None) -> Iterator[Case]:
    """``digits``: how many of the number's digits the suite prints."""
    yield replace(case, expected=_truth(value != 0 and not math.isnan(value)))
    if math.isnan(value):
        yield case.also("value", f"string(number({case.expr})) = 'NaN'")
    elif math.isinf(value):
        yield case.also("value", f"number({case.expr}) = {'-' if value < 0 else ''}1 div 0")
    elif digits is None or value == 0:
        yield case.also("value", f"number({case.expr}) = {_decimal(value)}")
    else:
        low, high = sorted((value * (1 - 10.0**-digits), value * (1 + 10.0**-digits)))
        number = f"number({case.expr})"
        yield case.also("value", f"{number} >= {_decimal(low)} and {number} <= {_decimal(high)}")


def _boolean(case: Case, value: bool) -> Iterator[Case]:
    yield replace(case, expected=_truth(value))


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _literal(text: str) -> str:
    if "'" not in text:
        return f"'{text}'"
    if '"' not in text:
        return f'"{text}"'
    return "concat(" + ', "\'", '.join(f"'{part}'" for part in text.split("'")) + ")"


def _decimal(value: float) -> str:
    return format(Decimal(repr(value)), "f")


# -- .NET: tests.jsonl


def _dotnet(root: Path) -> Iterator[Case]:
    for line in (root / "tests.jsonl").read_text().splitlines():
        row = json.loads(line)
        case = Case(
            id=f"dotnet/{row['test']}",
            document=(root / "TestData" / row["doc"]).read_bytes(),
            expr=row["xpath"].replace("$$", "$"),
            expected="refused",
            context=_joined("/", row["context"] or "/"),
            # .NET takes an empty prefix and never uses it: an unprefixed name is in no namespace
            namespaces={prefix: uri for prefix, uri in row["namespaces"].items() if prefix},
        )
        kind, expected = row["kind"], row["expected"]
        if kind.endswith("Throws"):
            yield case
        elif expected is None and row["expected_nodes"] is None:
            # one result is a C# expression that was not mined: a number that is almost too large, hence not zero
            yield from _boolean(case, True)
        elif kind == "XPathNodesetTest":
            yield from _node_set(case, len(row["expected_nodes"]))
            if row["expected_nodes"] and "Value" in row["expected_nodes"][0]:
                yield case.also("first", f"string({case.expr}) = {_literal(row['expected_nodes'][0]['Value'])}")
        elif kind == "XPathMatchTest":
            # the test moves to the first node that the pattern selects from the context, if there is one
            moved = f"boolean({case.expr}) or {matches(case.expr, case.namespaces)}"
            yield replace(case, expr=moved, expected=expected)
        elif kind == "XPathBooleanTest":
            yield from _boolean(case, expected == "true")
        elif kind == "XPathNumberTest":
            special = {"double.NaN": "nan", "double.PositiveInfinity": "inf", "double.NegativeInfinity": "-inf"}
            yield from _number(case, float(special.get(expected, expected.rstrip("d"))))
        else:
            yield from _string(case, expected)


def matches(pattern: str, namespaces: Mapping[str, str]) -> str:
    """XSLT 1.0, 5.2: a node matches a pattern if the pattern selects it from the node itself or an ancestor."""
    try:
        expr = parse(pattern, namespaces)
    except TwigcastError:
        return pattern
    alternatives = expr.operands if isinstance(expr, ast.Union) else (expr,)
    selected = " | ".join(_from_ancestors(one, pattern[one.span.start : one.span.end]) for one in alternatives)
    return f"count(. | {selected}) = count({selected})"


def _from_ancestors(expr: ast.Expr, text: str) -> str:
    return f"ancestor-or-self::node()/{text}" if isinstance(expr, ast.LocationPath) and not expr.absolute else text


# -- Jaxen: tests.xml


def _jaxen(root: Path) -> Iterator[Case]:
    tests = etree.parse(str(root / "xml/test/tests.xml"))
    number = 0
    for document in tests.getroot().iterchildren("document"):
        data = (root / document.get("url")).read_bytes()
        for context in document.iterchildren("context"):
            for test in context.iter("test", "valueOf"):
                number += 1
                where = _joined("/", context.get("select"))
                if test.getparent() is not context:
                    where = _joined(where, test.getparent().get("select"))
                prefixes = {p: uri for p, uri in test.nsmap.items() if p and uri != _VARIABLES}
                case = Case(f"jaxen/{number}", data, test.get("select"), "refused", where, prefixes)
                if test.get("exception") == "true":
                    yield case
                elif test.tag == "valueOf":
                    yield from _value_of(case, test.text or "")
                elif test.get("count") is not None:
                    yield from _node_set(case, int(test.get("count")))


def _value_of(case: Case, text: str) -> Iterator[Case]:
    """The suite knows results as strings only; their type follows from the expression."""
    try:
        kind = ast.type_of(parse(case.expr, case.namespaces))
    except TwigcastError:
        kind = ast.STRING
    if kind == ast.BOOLEAN:
        yield from _boolean(case, text == "true")
    elif kind == ast.NUMBER:
        yield from _number(case, float(text))
    elif kind == ast.NODE_SET:
        assert text, "an empty string is that of no node, or of one without text: which, the suite would not say"
        yield from _string(case, text)
    else:
        yield from _string(case, text)


# -- libxml2: expressions by line, results as its test program prints them


def _libxml2(root: Path) -> Iterator[Case]:
    for kind in ("expr", "tests", "xptr"):
        for file in sorted((root / "result/XPath" / kind).iterdir()):
            document, context = b"<a/>", "/"
            if kind != "expr":
                names = (d for d in (root / "test/XPath/docs").iterdir() if file.name.startswith(d.name))
                document, context = max(names, key=lambda d: len(d.name)).read_bytes(), "/*"
            for number, (expr, result) in enumerate(_printed(file.read_text()), 1):
                case = Case(f"libxml2/{kind}/{file.name}:{number}", document, expr, "refused", context)
                yield from _result(_xpointer(case) if kind == "xptr" else case, result)
    for file in sorted((root / "result/pattern").iterdir()):
        yield from _patterns(root / "test/pattern", file)


def _printed(text: str) -> Iterator[tuple[str, str]]:
    for block in text.split("========================\n")[1:]:
        expr, result = re.fullmatch(r"Expression: (.*?)\n(Object is .*)", block, re.DOTALL).groups()  # type: ignore[union-attr]
        yield expr, result.removesuffix("\n")


def _result(case: Case, text: str) -> Iterator[Case]:
    kind, _, value = text.removeprefix("Object is ").partition(" :")
    value = value.removeprefix(" ").removesuffix("\n")
    if kind.startswith("empty"):
        # so it prints an XPointer that finds nothing, and an expression that it refuses
        refused = case.expr in ("self::-name", "non-existing-fn()")
        yield replace(case, expected="refused" if refused else "false")
    elif kind == "a Node Set":
        yield from _node_set(case, int(re.search(r"contains (\d+) nodes", value).group(1)))  # type: ignore[union-attr]
    elif kind == "a Boolean":
        yield from _boolean(case, value == "true")
    elif kind == "a number":
        yield from _number(case, float(value.replace("Infinity", "inf")), 5)
    else:
        assert kind == "a string", kind
        yield from _string(case, value)


def _xpointer(case: Case) -> Case:
    """``xmlns(p=uri) xpath1(a)xpath1(b)``: the first path that finds something. Other schemes are left as they are."""
    parts = re.findall(r"(\w+)\(((?:[^()]|\([^()]*\))*)\)\s*", case.expr)
    if not parts or any(scheme not in ("xmlns", "xpath1") for scheme, _ in parts):
        return case
    prefixes = dict(data.split("=", 1) for scheme, data in parts if scheme == "xmlns")
    *rest, last = [data for scheme, data in parts if scheme == "xpath1"]
    for path in reversed(rest):
        last = f"{path} | {last}[not({path})]"
    return replace(case, expr=last, namespaces=prefixes)


def _patterns(root: Path, file: Path) -> Iterator[Case]:
    document = (root / f"{file.name}.xml").read_bytes()
    prefixes = {p: uri for p, uri in etree.fromstring(document).nsmap.items() if p}
    found = [line.partition(" matches pattern ")[2] for line in file.read_text().splitlines()]
    patterns = (root / f"{file.name}.pat").read_text().split()
    for number, pattern in enumerate(patterns, 1):
        expr = " | ".join(one if one.startswith("/") else f"//{one}" for one in pattern.split("|"))
        case = Case(f"libxml2/pattern/{file.name}:{number}", document, expr, "refused", "/", prefixes)
        yield from _node_set(case, found.count(pattern) // patterns.count(pattern))
