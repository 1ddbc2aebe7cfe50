"""What a query that does not match probably meant: a step that finds nothing, a value that is almost the one wanted."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence

from twigcast.errors import Span
from twigcast.explain.message import MessageTree
from twigcast.lang import ast
from twigcast.lang.context import along
from twigcast.lang.values import to_number, to_string

Name = tuple[str, str]
"""Namespace ("" for none) and local name."""

_NOWHERE = Span(0, 0)
_LISTED = 8
_LOOKED_AT = 10_000
_KINDS = {"text": "text of its own", "comment": "comment", "processing-instruction": "processing instruction"}


def there_instead(
    tree: MessageTree, base: ast.Expr, steps: tuple[ast.AxisStep, ...], *, many: bool
) -> tuple[str, tuple[str, ...]]:
    """For a step (after a ``//``, if they are two) that finds nothing below the nodes of ``base``: what is there
    instead, and hints. ``many``: speak of several nodes."""
    *gap, step = steps
    if step.axis not in ("child", "descendant", "descendant-or-self", "attribute"):
        return "", ()
    if isinstance(step.test, ast.KindTest):
        what = _KINDS.get(step.test.kind)
        return (f"there is no {what}", ()) if what else ("", ())
    found = tree.names(along(base, (*gap, _any(step.axis))), _LOOKED_AT)
    hints = _near_name(step.test, found, "@" if step.axis == "attribute" else "")
    if step.axis == "attribute":
        attributes = f"{'their' if many else 'its'} attributes are {_list(found, step.test)}"
        there = attributes if found else "there are no attributes"
        other = f"{step.test.local} is an element here, not an attribute: write it without the @"
        hints = hints or _if_any(tree, along(base, (*gap, _step("child", step.test))), other)
        return there, hints
    if gap or step.axis != "child":
        there = f"{'their' if many else 'its'} elements are {_list(found, step.test)}"
    else:
        there = f"{'their' if many else 'its'} children are {_list(found, step.test)}"
    return (there if found else "there are no elements"), hints or _elsewhere(tree, base, steps, found)


def _elsewhere(
    tree: MessageTree, base: ast.Expr, steps: tuple[ast.AxisStep, ...], found: list[Name]
) -> tuple[str, ...]:
    """Hints for an element whose very name is not there: it may be deeper, an attribute, or mistyped."""
    *gap, step = steps
    test = step.test
    if not isinstance(test, ast.NameTest) or not test.local:
        return ()
    deeper = tree.first(along(base, (_step("descendant", test),)))
    if deeper:
        return (f"there is one deeper, {deeper[0]}: // goes to any depth",)
    attribute = along(base, (*gap, _step("attribute", test)))
    hint = _if_any(tree, attribute, f"{test.local} is an attribute here, not an element: write @{test.local}")
    close = difflib.get_close_matches(test.local, [local for _, local in found], 1, 0.75)
    return hint or tuple(f"did you mean {name}?" for name in close)


def _if_any(tree: MessageTree, nodes: ast.Expr, hint: str) -> tuple[str, ...]:
    return (hint,) if tree.count(nodes) else ()


def _near_name(test: ast.NameTest, found: list[Name], at: str) -> tuple[str, ...]:
    """Names that are right but for their namespace, or but for case."""
    for ns, local in found:
        if local == test.local and ns != test.ns:
            if not ns:
                return (f"here {at}{local} is in no namespace, and the query asks for {test.ns!r}",)
            other = "" if test.ns else ", which a name without prefix does not mean"
            declare = f"declare a prefix (--ns p={ns}) and write {at}p:{local}, or write {at}{{{ns}}}{local}"
            return (f"here {at}{local} is in the namespace {ns!r}{other}: {declare}",)
    for _, local in found:
        if test.local and local.casefold() == test.local.casefold() and local != test.local:
            return (f"case matters in names: here it is {at}{local}",)
    return ()


def _any(axis: str) -> ast.AxisStep:
    return _step(axis, ast.NameTest(None, None, _NOWHERE))


def _step(axis: str, test: ast.NameTest) -> ast.AxisStep:
    return ast.AxisStep(axis, test, (), _NOWHERE)


def name_text(ns: str, local: str) -> str:
    return f"{{{ns}}}{local}" if ns else local


def _list(found: list[Name], test: ast.NameTest) -> str:
    """The first names; where there are many, those most alike the wanted one."""
    names = [name_text(*name) for name in found]
    if len(names) > _LISTED:
        close = difflib.get_close_matches(test.local or "", names, 3, 0.5)
        names = close + [name for name in names if name not in close]
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more:,} more" if more > 0 else "")


def value_hints(values: Sequence[str], op: str, wanted: str | float, path: str) -> tuple[str, ...]:
    """For values of which none compares with the constant as asked."""
    if op == "=" and isinstance(wanted, str):
        for value in values:
            case = "case and " if value.split() != wanted.split() else ""
            if value.strip() and value.casefold().split() == wanted.casefold().split() and value.split() != [value]:
                spaced = f"normalize-space() = {quote(' '.join(value.split()))}"
                write = spaced if path.endswith(".") else f"{path}[{spaced}]"
                return (f"they differ in {case}white space only, which counts: write {write}",)
            if value and value.casefold() == wanted.casefold():
                return ("they differ in case only, which counts",)
        for value in values:
            if to_number(value) == to_number(wanted):
                return (f"as numbers they are equal: write {to_string(to_number(wanted))} without quotes",)
        return ()
    if op in ("<", "<=", ">", ">=") and isinstance(wanted, str) and math.isnan(to_number(wanted)):
        return (f"{op} compares numbers, and {quote(wanted)} is none, so this never holds",)
    odd = [value for value in values if math.isnan(to_number(value))]
    if odd and op != "!=":
        return (f"{quote(odd[0])} is not a number as XPath 1.0 writes them, and only numbers compare with one",)
    return ()


def closeness(value: str, wanted: str | float) -> float:
    """How much a value looks like a constant, from 0 to 1."""
    if isinstance(wanted, float):
        distance = abs(to_number(value) - wanted)
        return 0.0 if math.isnan(distance) else 1 / (1 + distance)
    ours, theirs = " ".join(value.casefold().split())[:200], " ".join(wanted.casefold().split())[:200]
    return difflib.SequenceMatcher(None, ours, theirs).ratio()


def quote(value: str, most: int = 60) -> str:
    """A value on one line, cut where it is long."""
    text = value if len(value) <= most else value[: most - 1] + "…"
    return '"' + "".join(c if c.isprintable() else repr(c)[1:-1] for c in text) + '"'
