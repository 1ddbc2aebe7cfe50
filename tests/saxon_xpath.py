"""Where libxml2 answers otherwise than XPath 1.0 says, and Saxon's answers, which the kernel is held against there."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from twigcast.lang import ast
from twigcast.lang.context import at_document
from twigcast.lang.printer import to_xpath


def is_wrong_in_libxml2(expr: ast.Expr) -> bool:
    """Whether libxml2 may answer otherwise than XPath 1.0 says (kernel/test_evaluate.py has these cases).

    What follows an attribute or a namespace node begins with the children of its element, which libxml2 leaves out; and
    lang() at a namespace node does not see the element's language.
    """
    parts = list(ast.walk(expr))
    axes = {step.axis for one in parts if isinstance(one, ast.LocationPath | ast.FilterPath) for step in one.steps}
    if "following" in axes and axes & {"attribute", "namespace"}:
        return True
    return "namespace" in axes and any(isinstance(one, ast.Call) and one.name == "lang" for one in parts)


def is_wrong_in_saxon(expr: ast.Expr) -> bool:
    """Whether Saxon may answer otherwise than XPath 1.0 says: it compares booleans by order, not their numbers."""
    return any(
        isinstance(one, ast.Comparison)
        and one.op not in ("=", "!=")
        and ast.BOOLEAN in (ast.type_of(one.left), ast.type_of(one.right))
        for one in ast.walk(expr)
    )


def saxon_holds(xml: bytes, expr: ast.Expr) -> bool | None:
    """Return whether a query holds by the rules of XPath 1.0; None where Saxon cannot tell."""
    if is_wrong_in_saxon(expr):
        return None
    saxonche = pytest.importorskip("saxonche")
    text, prefixes = to_xpath(at_document(expr))
    xpath = _saxon().new_xpath_processor()
    xpath.set_backwards_compatible(True)
    for prefix, uri in prefixes.items():
        xpath.declare_namespace(prefix, uri)
    xpath.set_context(xdm_item=_saxon().parse_xml(xml_text=xml.decode()))
    try:
        return bool(xpath.effective_boolean_value(f"boolean({text})"))
    except saxonche.PySaxonApiError:  # XPath 2.0 has errors where 1.0 has an answer, as for the sum of a text
        return None


@cache
def _saxon() -> Any:
    return pytest.importorskip("saxonche").PySaxonProcessor(license=False)
