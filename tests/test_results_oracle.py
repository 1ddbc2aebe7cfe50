"""What subscriptions select agrees with libxml2: the same nodes, and fragments of the same canonical form."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from support import random_document
from twigcast import Engine, Subscription
from twigcast.lang import ast
from twigcast.lang.context import at_document
from twigcast.lang.printer import to_text, to_xpath

sys.path.append(str(Path(__file__).parent / "lang"))

from evaluate import load, lxml_keys
from filters_check import FUELS, engine_with
from lang_documents import document
from lang_strategies import COMMON_AXES, expressions

Expected = list[tuple[int, str]]
"""Number and canonical form of each node."""


class Oracle:
    """A query as lxml evaluates it."""

    def __init__(self, expr: ast.Expr) -> None:
        xpath, prefixes = to_xpath(at_document(expr))
        self.nodes = etree.XPath(xpath, namespaces=prefixes or None)
        self.document = etree.XPath(f"boolean(({xpath})[not(..)])", namespaces=prefixes or None)

    def select(self, tree: etree._ElementTree, numbers: dict[object, int]) -> Expected:
        nodes = [node for node in self.nodes(tree) if not isinstance(node, tuple)]  # namespace nodes have no number
        found = {}
        for node in nodes:
            (key,) = lxml_keys([node])
            found[numbers[key]] = canonical(node)
        if self.document(tree):
            root = tree.getroot()
            top = [*reversed(list(root.itersiblings(preceding=True))), root, *root.itersiblings()]
            found[0] = wrapped(b"".join(etree.tostring(one, encoding="UTF-8", with_tail=False) for one in top))
        return sorted(found.items())


def canonical(node: Any) -> str:
    if isinstance(node, str):
        return wrapped(etree.tostring(element_with(node), encoding="UTF-8")[3:-4] if node else b"")
    return wrapped(etree.tostring(node, encoding="UTF-8", with_tail=False))


def element_with(text: str) -> etree._Element:
    element = etree.Element("x")
    element.text = str(text)
    return element


def wrapped(fragment: bytes) -> str:
    """The canonical form (inclusive: all namespaces count) of a fragment, which need not be an element."""
    data: bytes = etree.tostring(etree.fromstring(b"<w>" + fragment + b"</w>"), method="c14n", with_comments=True)
    return data.decode()


def check(exprs: list[ast.Expr], documents: list[bytes]) -> None:
    exprs = [e for e in exprs if ast.type_of(e) == ast.NODE_SET]
    oracles = [Oracle(e) for e in exprs]
    engines = [engine_with(fuel) for fuel in FUELS]
    for engine in engines:
        texts = list(map(to_text, exprs))
        engine.add_many(Subscription(2 * i, text, result="nodes") for i, text in enumerate(texts))
        engine.add_many(Subscription(2 * i + 1, text, result="fragments") for i, text in enumerate(texts))
    for xml in documents:
        tree = etree.ElementTree(etree.fromstring(xml, etree.XMLParser(attribute_defaults=True)))
        if tree.docinfo.internalDTD is None:  # libxml2 finds a root before a comment only if something comes before it
            tree.docinfo.system_url = "none"
            tree.docinfo.system_url = None
        whole = load(tree.getroot())
        numbers = {one.key: one.order for node in whole.below() for one in (node, *node.attributes)}
        expected = {i: found for i, oracle in enumerate(oracles) if (found := oracle.select(tree, numbers))}
        for plan, engine in zip(FUELS, engines, strict=True):
            selected = {one.id: one for one in engine.select(xml)}
            for i, found in expected.items():
                nodes, fragments = selected.pop(2 * i), selected.pop(2 * i + 1)
                told = f"{plan}\n{to_text(exprs[i])}\n{xml.decode()}"
                assert nodes.nodes == [number for number, _ in found], told
                assert [wrapped(f) for f in fragments.fragments] == [form for _, form in found], told
                assert nodes.fragments is None and fragments.nodes is None
                assert nodes.complete and fragments.complete
            # only namespace nodes are found and not told
            assert all(not one.nodes and not one.fragments for one in selected.values()), (plan, selected, xml)
        same_in_batches(engines[0], xml)


def same_in_batches(engine: Engine, xml: bytes) -> None:
    result = engine.select_batch(pa.record_batch({"id": ["bad", "good"], "xml": [b"<", xml]}))
    bad, good = result.to_pylist()
    assert bad["matches"] == [] and bad["error"]["code"]
    ids = engine.ids
    found = [(ids[m["subscription"]].as_py(), m["nodes"], m["fragments"], m["complete"]) for m in good["matches"]]
    assert found == [(one.id, one.nodes, one.fragments, one.complete) for one in engine.select(xml)]


def documents_from(seed: int, count: int) -> list[bytes]:
    source = random.Random(seed)
    return [document(source) if i % 2 else random_document(source) for i in range(count)]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(expressions(COMMON_AXES), min_size=1, max_size=12), st.integers(0, 10**9))
def test_results_agree_with_libxml2(exprs: list[ast.Expr], seed: int) -> None:
    check(exprs, documents_from(seed, 3))


@pytest.mark.slow
@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(expressions(), min_size=4, max_size=12), st.integers(0, 10**9))
def test_more_results_agree_with_libxml2(exprs: list[ast.Expr], seed: int) -> None:
    check(exprs, documents_from(seed, 6))
