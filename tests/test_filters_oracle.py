"""Filters of the whole XPath grammar agree with libxml2: every mode, strategy for predicates, and either evaluator."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from twigcast import Engine, Subscription, _kernel
from twigcast.lang import ast
from twigcast.lang.context import at_document
from twigcast.lang.printer import to_text, to_xpath
from twigcast.limits import Limits
from twigcast.plan.planner import PREDICATES

sys.path.append(str(Path(__file__).parent / "lang"))

from lang_documents import document
from lang_strategies import COMMON_AXES, expressions

PLANS = [
    ("trie", 16, "shared"),
    ("trie", 0, "shared"),
    ("nfa", 16, "shared"),
    ("fsm-per-query", 16, "shared"),
    ("trie", 16, "inline"),
    ("nfa", 0, "inline"),
    ("trie", 16, "postponed"),
    ("nfa", 0, "postponed"),
]


def engine_with(mode: str, fuel: int, predicates: str) -> Engine:
    """An engine whose kernel searches at most ``fuel`` times the message's nodes before it evaluates in bulk."""
    # the documents are small, and what libxml2 may take too long for would be refused, not answered
    engine = Engine(mode=mode, predicates=predicates, limits=Limits(max_residual_cost=2**63 - 1))
    engine.kernel = _kernel.papers.engine(mode, 1 << 26, fuel)
    engine._register.__init__(engine.kernel)
    return engine


def plain_tree(xml: bytes) -> etree._ElementTree:
    """With an empty DOCTYPE: libxml2 takes the text of its entities for text of the document, but finds a root element
    before a comment only if something comes before it."""
    whole = etree.tostring(etree.ElementTree(etree.fromstring(xml)), encoding="UTF-8")
    plain = re.sub(rb"<!DOCTYPE[^]]*\]>", b"", whole, count=1)
    return etree.ElementTree(etree.fromstring(b"<!DOCTYPE none>" + plain))


def check(exprs: list[ast.Expr], seed: int, documents: int = 4) -> None:
    texts = [to_text(e) for e in exprs]
    oracles = []
    for e in exprs:
        xpath, prefixes = to_xpath(at_document(e))
        oracles.append(etree.XPath(f"boolean({xpath})", namespaces=prefixes or None))
    engines = [engine_with(*plan) for plan in PLANS]
    for engine in engines:
        engine.add_many(Subscription(i, text) for i, text in enumerate(texts))
    source = random.Random(seed)
    for _ in range(documents):
        xml = document(source)
        trees = etree.ElementTree(etree.fromstring(xml)), plain_tree(xml)
        expected = [{i for i, oracle in enumerate(oracles) if oracle(tree)} for tree in trees]
        answers = [engine.match(xml) for engine in engines]
        for plan, found in zip(PLANS, answers, strict=True):
            wrong = set.intersection(*(one ^ set(found) for one in expected))
            assert not wrong, f"{plan}\n{[texts[i] for i in sorted(wrong)]}\n{xml.decode()}"
            assert found == answers[0] == sorted(found), plan


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(expressions(COMMON_AXES), min_size=1, max_size=12), st.integers(0, 10**9))
def test_filters_agree_with_libxml2(exprs: list[ast.Expr], seed: int) -> None:
    check(exprs, seed)


@pytest.mark.slow
@settings(max_examples=4000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(expressions(), min_size=4, max_size=12), st.integers(0, 10**9))
def test_hundred_thousand_pairs_agree_with_libxml2(exprs: list[ast.Expr], seed: int) -> None:
    check(exprs, seed, documents=6)


@pytest.mark.parametrize("predicates", PREDICATES)
@pytest.mark.parametrize("mode", ["trie", "nfa"])
def test_what_a_matcher_remembers_of_subscriptions_goes_with_them(mode: str, predicates: str) -> None:
    """Numbers of removed subscriptions are used again, for other shapes and constants."""
    source = random.Random(7)
    shapes = [
        "//a[b = {0}]/c",
        "//a[@x = '{0}'][c]",
        "//b[c != {0}]",
        "//a[c][{0}]",
        "/a[b[c > {0}]]//c",
        "//b[@x = '{0}']",
    ]
    engine = Engine(mode=mode, predicates=predicates)
    oracles: dict[int, etree.XPath] = {}
    for number in range(400):
        query = source.choice(shapes).format(source.randint(1, 3))
        engine.add(query, id=number)
        oracles[number] = etree.XPath(f"boolean({query})")
        if number % 3:
            gone = source.choice(sorted(oracles))
            engine.remove(gone)
            del oracles[gone]
        xml = document(source)
        tree = etree.ElementTree(etree.fromstring(xml))
        assert set(engine.match(xml)) == {i for i, oracle in oracles.items() if oracle(tree)}


@pytest.mark.parametrize(
    "queries", [("string-length(@x) = 3", "string-length(@x) = 0"), ("count(@x) > 1", "count(@x) > -1")]
)
@pytest.mark.parametrize("predicates", PREDICATES)
@pytest.mark.parametrize("reopened", [False, True])
def test_constants_that_need_other_paths_do_not_share_a_shape(
    queries: tuple[str, str], reopened: bool, predicates: str, tmp_path: Path
) -> None:
    engine = Engine(predicates=predicates)
    engine.add(f"/b[{queries[0]}]/*", id=1)
    if reopened:
        engine.save(tmp_path / "snapshot")
        engine = Engine.open(tmp_path / "snapshot")
    engine.add(f"/b[{queries[1]}]/*", id=2)
    assert engine.match(b"<b><c/></b>") == [2]
