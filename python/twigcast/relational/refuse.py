"""What the relational engine does not take, in words and with the place in the query."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twigcast.errors import QueryError, Span
from twigcast.ir.pattern import (
    Compare,
    Count,
    Match,
    NodeIs,
    NormalizeSpace,
    Not,
    Position,
    Step,
    StringLength,
    StringValue,
)
from twigcast.ir.visit import walk
from twigcast.lang import ast
from twigcast.lang.xpath import parse

HINT = "the relational engine takes paths, comparisons with constants, and, or; the automaton takes all of XPath 1.0"


class Refused(Exception):
    """``what`` is the part of the pattern that has no place in the tables."""

    def __init__(self, what: object) -> None:
        super().__init__(what)
        self.what = what


def refusal(what: object, query: str, namespaces: Mapping[str, str]) -> QueryError:
    text, is_it = _reason(what)
    return not_relational(text, query, _place(query, namespaces, is_it))


def not_relational(text: str, query: str, span: Span) -> QueryError:
    return QueryError("not-relational", text, hint=HINT, source=query, span=span)


_Is = Callable[[object], bool]


def _reason(what: object) -> tuple[str, _Is]:
    match what:
        case Not():
            return "not() is beyond joins: the tables hold what a message has", _calls("not")
        case Position():
            return "a position in a predicate has no column in the tables", _positional
        case Match(function=function):
            return f"{function}() is no comparison that an index could find", _calls(function)
        case Compare(value=Count()):
            return "count() is no value of a node", _calls("count")
        case Compare(value=StringLength()):
            return "string-length() is no value of a node", _calls("string-length")
        case Compare(value=NormalizeSpace()):
            return "normalize-space() is no value of a node", _calls("normalize-space")
        case Compare(value=StringValue(first=True)):
            return "the value of the first node only is not in the tables", _calls("string", "number")
        case NodeIs():
            return "a test of the node itself has no column in the tables", _self
        case "document":
            return "the value of the whole document is not in the tables", lambda _: False
        case "reference":
            return "a value is compared with reference data by = only", lambda _: False
        case "alternatives":
            return "the query has too many alternatives: each is a subscription of its own in the tables", _ors
        case Step(kind="node"):
            return "node() before the end of a path is no tag", _kind("node")
        case Step(kind="pi"):
            return "the target of a processing instruction is no tag", _kind("processing-instruction")
    return "this is no conjunction of comparisons with constants", lambda _: False


def _calls(*names: str) -> _Is:
    return lambda part: isinstance(part, ast.Call) and part.name in names


def _kind(kind: str) -> _Is:
    return lambda part: isinstance(part, ast.KindTest) and part.kind == kind


def _self(part: object) -> bool:
    return isinstance(part, ast.AxisStep) and part.axis == "self"


def _ors(part: object) -> bool:
    return isinstance(part, ast.Logical) and part.op == "or"


def _positional(part: object) -> bool:
    return (isinstance(part, ast.Call) and part.name in ("position", "last")) or isinstance(part, ast.Number)


def _place(query: str, namespaces: Mapping[str, str], is_it: _Is) -> Span:
    """Where in the text the first such part is; the whole of it if it cannot be told."""
    spans = (getattr(part, "span", None) for part in walk(parse(query, namespaces)) if is_it(part))
    return next((span for span in spans if span is not None), Span(0, len(query)))
