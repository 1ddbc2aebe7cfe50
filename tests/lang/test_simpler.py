"""Necessary patterns in their simpler form let no message through that they should keep, and keep none that matches."""

from __future__ import annotations

from random import Random

import pytest
from lxml import etree

from support import random_document
from twigcast import Engine, Subscription

NAMES = ("a", "b", "c", "*")
AXES = ("following-sibling", "preceding-sibling", "following", "preceding", "parent", "child")


def _path(random: Random) -> str:
    a, b, c = (random.choice(NAMES) for _ in range(3))
    axis, other, lead = random.choice(AXES), random.choice(AXES), random.choice(("/", "//", "//*/"))
    test = random.choice(("", f" = '{random.randrange(3)}'", " != ''", f"[{other}::{c}]", f"/{c}", "[2]"))
    inner = f"{axis}::{b}{test}"
    return f"{lead}{a}" + random.choice((f"[{inner}]", f"[not({inner})]", f"/{inner}", f"[{inner} or {other}::{c}]"))


def _query(random: Random) -> str:
    one, other = _path(random), _path(random)
    return random.choice((one, one, f"{one} or {other}", f"{one} and {other}", f"not({one}) or {other}"))


@pytest.mark.parametrize("seed", range(3))
def test_queries_with_further_axes_agree_with_libxml2(seed: int) -> None:
    random = Random(f"simpler {seed}")
    queries = sorted({_query(random) for _ in range(700)})
    engine = Engine()
    engine.add_many(Subscription(i, query) for i, query in enumerate(queries))
    compiled = [etree.XPath(f"boolean({query})") for query in queries]
    held = 0
    for _ in range(15):
        xml = random_document(random)
        tree = etree.ElementTree(etree.fromstring(xml))
        right = [i for i, query in enumerate(compiled) if query(tree)]
        assert engine.match(xml) == right, [queries[i] for i in set(engine.match(xml)) ^ set(right)][:3]
        held += len(right)
    assert held > 500


@pytest.mark.parametrize("number", ["last() - 'a'", "position() + 'a'", "'a' - last()"])
def test_a_position_less_something_that_is_no_number_is_false(number: str) -> None:
    engine = Engine()
    engine.add(f"//a[b or ({number})]")
    assert engine.match(b"<b><a/></b>") == []
    assert engine.match(b"<b><a><b/></a></b>") == [1]
