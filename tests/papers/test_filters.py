"""Filters of the whole XPath grammar agree with libxml2: every mode, strategy for predicates, and either evaluator."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest
from filters_check import check
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lang_documents import document
from lang_strategies import COMMON_AXES, expressions
from lxml import etree

from twigcast import _kernel, papers
from twigcast.lang import ast
from twigcast.limits import Limits
from twigcast.papers.predicates import PREDICATES

PLANS = [
    ("nfa", 16, "shared"),
    ("fsm-per-query", 16, "shared"),
    ("trie", 16, "inline"),
    ("nfa", 0, "inline"),
    ("trie", 16, "postponed"),
    ("nfa", 0, "postponed"),
]


def engine_with(mode: str, fuel: int, predicates: str) -> papers.Engine:
    """Return an engine whose kernel searches at most ``fuel`` times the message's nodes before it evaluates in bulk."""
    # a random query may take many steps, and would fail instead of being answered
    engine = papers.Engine(mode=mode, predicates=predicates, limits=Limits(max_query_steps=2**63 - 1))
    engine._adopt(_kernel.papers.engine(mode, 1 << 26, fuel), engine._ids, engine._history)
    return engine


MAKERS = [partial(engine_with, *plan) for plan in PLANS]


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(expressions(COMMON_AXES), min_size=1, max_size=12), st.integers(0, 10**9))
def test_filters_agree_with_libxml2(exprs: list[ast.Expr], seed: int) -> None:
    check(exprs, seed, MAKERS)


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
    engine = papers.Engine(mode=mode, predicates=predicates)
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
    engine = papers.Engine(predicates=predicates)
    engine.add(f"/b[{queries[0]}]/*", id=1)
    if reopened:
        engine.save(tmp_path / "snapshot")
        engine = papers.Engine.open(tmp_path / "snapshot")
    engine.add(f"/b[{queries[1]}]/*", id=2)
    assert engine.match(b"<b><c/></b>") == [2]
