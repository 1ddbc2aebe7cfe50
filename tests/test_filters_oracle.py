"""Filters of the whole XPath grammar agree with libxml2: by search and by sets."""

from __future__ import annotations

import random
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from twigcast import Engine
from twigcast.lang import ast

sys.path.append(str(Path(__file__).parent / "lang"))

from filters_check import FUELS, check, engine_with
from lang_documents import document
from lang_strategies import COMMON_AXES, expressions

MAKERS = [partial(engine_with, fuel) for fuel in FUELS]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(expressions(COMMON_AXES), min_size=1, max_size=12), st.integers(0, 10**9))
def test_filters_agree_with_libxml2(exprs: list[ast.Expr], seed: int) -> None:
    check(exprs, seed, MAKERS)


@pytest.mark.slow
@settings(max_examples=4000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(expressions(), min_size=4, max_size=12), st.integers(0, 10**9))
def test_hundred_thousand_pairs_agree_with_libxml2(exprs: list[ast.Expr], seed: int) -> None:
    check(exprs, seed, MAKERS, documents=6)


def test_what_a_matcher_remembers_of_subscriptions_goes_with_them() -> None:
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
    engine = Engine()
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
@pytest.mark.parametrize("reopened", [False, True])
def test_constants_that_need_other_paths_do_not_share_a_shape(
    queries: tuple[str, str], reopened: bool, tmp_path: Path
) -> None:
    engine = Engine()
    engine.add(f"/b[{queries[0]}]/*", id=1)
    if reopened:
        engine.save(tmp_path / "snapshot")
        engine = Engine.open(tmp_path / "snapshot")
    engine.add(f"/b[{queries[1]}]/*", id=2)
    assert engine.match(b"<b><c/></b>") == [2]
