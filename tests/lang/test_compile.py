"""Compiled patterns mean what libxml2 says the query means, on random documents and random expressions.

Where libxml2 departs from XPath 1.0 the strategies keep clear of it: its number() takes exponents ("1e2") and so does
its lexer; SEMANTICS 5 follows the recommendation.
"""

from __future__ import annotations

import random

from evaluate import holds, load, lxml_keys, select
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from lang_documents import document
from lang_strategies import COMMON_AXES, expressions
from lxml import etree

from twigcast.lang import ast
from twigcast.lang.compile import compile_ast
from twigcast.lang.context import at_document
from twigcast.lang.printer import to_text, to_xpath
from twigcast.pattern import Pattern, Structural

DOCUMENTS = 6


def check(expr: ast.Expr, xml: bytes) -> None:
    compiled = compile_ast(expr, to_text(expr))
    text, prefixes = to_xpath(at_document(expr))
    root = etree.fromstring(xml)
    message = load(root)
    expected = root.xpath(f"boolean({text})", namespaces=prefixes or None)
    where = f"{text}\n{xml!r}\n{compiled}"
    match compiled:
        case Structural(path):
            assert bool(select(path, message)) == expected, where
            found = set(select(path, message))
        case Pattern(condition, selects, pick):
            assert holds(condition, message) == expected, where
            if selects is None:
                return
            found = {node for one in selects if holds(one.guard, message) for node in select(one.twig, message)}
            if pick is not None:
                ordered = sorted(found, key=lambda node: node.order)
                found = {node for at, node in enumerate(ordered, 1) if holds(pick, node, at, len(ordered))}
        case _:
            if expected and compiled.necessary is not None:
                assert holds(compiled.necessary, message), where
            return
    results = root.xpath(text, namespaces=prefixes or None)
    assert {node.key for node in found} - {"document"} == lxml_keys(results), where


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(expressions(), st.integers(0, 10**9))
def test_any_expression_agrees_with_libxml2(expr: ast.Expr, seed: int) -> None:
    event(type(compile_ast(expr, to_text(expr))).__name__)
    source = random.Random(seed)
    for _ in range(DOCUMENTS):
        check(expr, document(source))


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(expressions(COMMON_AXES), st.integers(0, 10**9))
def test_forward_and_upward_axes_agree_with_libxml2(expr: ast.Expr, seed: int) -> None:
    event(type(compile_ast(expr, to_text(expr))).__name__)
    source = random.Random(seed)
    for _ in range(DOCUMENTS):
        check(expr, document(source))
