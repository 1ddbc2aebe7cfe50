"""PostgreSQL, a real server: the same answers, and whole subscriptions whatever is killed."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from twigcast import Engine, Subscription
from twigcast.relational import PLANS, RelationalEngine

sys.path.append(str(Path(__file__).parents[1] / "lang"))

from lang_documents import document

QUERIES = [
    "/a//b[.//c and d = '1']/@a",
    "//a[b = 1 and c != '2']",
    "//a[b > 0 and .//c <= 2 or d]",
    "//*[a and b and c]",
    "//b[@a != 1][c]",
    "//a/text() = 'x'",
    "//a[b[c]/d and .//d = 2]",
    "/*[.//a < 2 and .//a > 0.5]//d",
    "//c[. = '' or . = '1.0']",
    "//a//a[b]//c[d]",
    "//node()[. = 2]",
]


@pytest.mark.parametrize("plan", PLANS)
def test_the_same_answers(postgresql_url: str, plan: str) -> None:
    automaton = Engine()
    small = {"unroll": {"unroll": 2}, "share-bucket": {"buckets": 1}}.get(plan, {})
    engine = RelationalEngine(postgresql_url, plan=plan, **small)
    subscriptions = [Subscription(f"q{i}", query) for i, query in enumerate(QUERIES)]
    automaton.add_many(subscriptions)
    engine.add_many(subscriptions)
    source = random.Random(7)
    messages = [document(source) for _ in range(40)]
    expected = [automaton.match(xml) for xml in messages]
    batch = pa.record_batch({"id": range(40), "xml": pa.array(messages, pa.binary())})
    assert engine.match_batch(batch).column("matches").to_pylist() == expected
    assert sum(map(len, expected)) >= 20
    # another process, which finds the tag paths there
    other = RelationalEngine(postgresql_url)
    assert other.plan.name == plan
    assert [other.match(xml) for xml in messages[:3]] == expected[:3]
    other.remove("q2")
    other.add("//d", id="new")
    assert engine.match(b"<d/>") == ["new"]
    assert "q2" not in engine.match(messages[0])
    for one in (engine, other):
        one.close()
