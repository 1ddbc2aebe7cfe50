"""Subscriptions come and go while messages are matched; whatever happens, the answers stay right."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from twigcast import Engine, Subscription, _kernel
from twigcast.errors import MessageError, OptionError, QueryError
from twigcast.papers.relational import PLANS
from twigcast.papers.relational import RelationalEngine as Planned
from twigcast.relational import RelationalEngine

sys.path.append(str(Path(__file__).parents[1] / "lang"))

from lang_documents import document

QUERIES = [
    "/a//b[.//c and d = '1']/@a",
    "//a[b = 1 and c != '2']",
    "//a[b > 0 and .//c <= 2 or d]",
    "//a[b > 0 and .//c <= 2]",
    "//a[b > 1 and .//c <= 2]",
    "//*[a and b and c]",
    "//b[@a != 1][c]",
    "//a/text() = 'x'",
    "//a[b[c]/d and .//d = 2]",
    "//c[. = '' or . = '1.0']",
    "//a//a[b]//c[d]",
    "//b",
    "//b = 'x'",
]
STEPS = st.one_of(
    st.tuples(st.just("add"), st.integers(0, len(QUERIES) - 1)),
    st.tuples(st.just("add"), st.integers(0, len(QUERIES) - 1)),
    st.tuples(st.just("remove"), st.integers(0, 30)),
    st.tuples(st.just("match"), st.integers(0, 10**6)),
    st.tuples(st.just("gc"), st.just(0)),
    st.tuples(st.just("reopen"), st.just(0)),
)


def interleave(steps: list[tuple[str, int]], plan: str, where: Any) -> None:
    small: dict[str, Any] = {"bucket": {"buckets": 1}, "share-bucket": {"buckets": 1}, "unroll": {"unroll": 2}}
    engine = Planned(where, plan=plan, **small.get(plan, {}))
    automaton, ids = Engine(), []
    for i, (what, number) in enumerate([*steps, ("match", 1), ("gc", 0), ("match", 2)]):
        if what == "add":
            for one in (engine, automaton):
                one.add(QUERIES[number], id=i)
            ids.append(i)
        elif what == "remove" and ids:
            id = ids.pop(number % len(ids))
            engine.remove(id)
            automaton.remove(id)
        elif what == "gc":
            engine.gc()
        elif what == "reopen" and isinstance(where, str):
            engine.close()
            engine = RelationalEngine(where)
        elif what == "match":
            source = random.Random(number)
            for _ in range(3):
                xml = document(source)
                assert engine.match(xml) == sorted(automaton.match(xml)), (plan, xml)
    for id in ids:
        engine.remove(id)
    engine.gc()
    for table in ("query_predicate", "predicate_unroll", "query_branch_point", "query_linear_path", "path_match",
                  "tagpath_map", "tagpath_br_info", "linear_path_br_info", "query_alternative",
                  "unroll_first"):  # fmt: skip
        assert engine.database.rows(f"SELECT count(*) FROM {table}") == [(0,)], table
    engine.close()


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STEPS, min_size=5, max_size=20), st.sampled_from(PLANS))
def test_interleavings(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], plan: str) -> None:
    interleave(steps, plan, f"duckdb:///{tmp_path_factory.mktemp('rules') / 'rules.db'}")


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STEPS, min_size=5, max_size=40), st.sampled_from(PLANS))
def test_many_interleavings(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], plan: str) -> None:
    interleave(steps, plan, f"duckdb:///{tmp_path_factory.mktemp('rules') / 'rules.db'}")


@pytest.mark.parametrize("plan", ["share-bucket", "unroll"])
def test_interleavings_on_postgresql(postgresql_url: str, plan: str) -> None:
    source = random.Random(plan)
    kinds = ["add", "add", "remove", "match", "gc", "reopen"]
    interleave([(source.choice(kinds), source.randrange(13)) for _ in range(25)], plan, postgresql_url)


def test_shapes_are_numbered_on_after_gc() -> None:
    engine = Planned(plan="unroll")
    engine.add_many(Subscription(i, query) for i, query in enumerate(["//a = 1", "//b = 1", "//c = 1"]))
    engine.remove(1)
    engine.gc()
    engine.add("//d = 1", id=4)
    assert engine.match(b"<a><c>1</c><d>1</d></a>") == [2, 4]


def test_a_database_keeps_its_plan(tmp_path: Path) -> None:
    url = f"duckdb:///{tmp_path / 'rules.db'}"
    Planned(url, plan="share").close()
    engine = Planned(url)
    engine.add("//a = 1")
    assert engine.plan.name == "share"


@pytest.mark.parametrize("plan", PLANS)
def test_a_database_of_any_layout_is_matched_and_added_to(tmp_path: Path, plan: str) -> None:
    url = f"duckdb:///{tmp_path / 'rules.db'}"
    planned = Planned(url, plan=plan)
    planned.add_many(Subscription(i, f"/a[b = 'x' and c > {i} and d < {9 - i}]") for i in range(6))
    planned.close()
    engine = RelationalEngine(url)
    engine.add("/a[b = 'x' and c > 3 and d < 6 and e = 1 and f = 2 and g = 3 and h]", id=6)
    engine.add("/a[b = 'x' and c > 3]", id=7)
    xml = b"<a><b>x</b><c>3.5</c><d>5</d><e>1</e><f>2</f><g>3</g><h/></a>"
    assert engine.match(xml) == [0, 1, 2, 3, 6, 7]
    engine.remove_many([2, 6])
    assert engine.match(xml) == [0, 1, 3, 7]
    engine.remove_many([0, 1, 3, 4, 5, 7])
    assert engine.match(xml) == []
    engine.gc()
    assert engine.database.rows("SELECT count(*) FROM query_predicate") == [(0,)]


def test_shared_predicates_are_stored_once() -> None:
    queries = [f"/q[symbol = 'IBM' and price > {i}]" for i in range(50)]
    counts = {}
    for plan in ("recursive", "share"):
        engine = Planned(plan=plan)
        engine.add_many(Subscription(i, query) for i, query in enumerate(queries))
        ((counts[plan],),) = engine.database.rows("SELECT count(*) FROM query_predicate")
    assert counts == {"recursive": 100, "share": 51}


def test_buckets_share_ranges() -> None:
    queries = [f"/q[symbol = 'IBM' and price > {i} and volume < {i}]" for i in range(100)]
    engine = Planned(plan="share-bucket", buckets=5)
    engine.add_many(Subscription(i, query) for i, query in enumerate(queries))
    shared = engine.database.rows("SELECT count(*) FROM query_predicate WHERE NOT final AND op = '>'")
    assert shared == [(5,)]
    found = engine.match(b"<q><symbol>IBM</symbol><price>52.5</price><volume>10.5</volume></q>")
    assert found == list(range(11, 53))


def test_all_or_none() -> None:
    engine = RelationalEngine()
    engine.add("//a", id="one")
    with pytest.raises(QueryError):
        engine.add_many([Subscription("two", "//b"), Subscription("three", "//c[1]")])
    with pytest.raises(OptionError, match="already"):
        engine.add_many([Subscription("two", "//b"), Subscription("one", "//c")])
    assert len(engine) == 1 and engine.match(b"<a><b/></a>") == ["one"]
    with pytest.raises(OptionError, match="no subscription"):
        engine.remove_many(["one", "two"])
    assert "one" in engine and "two" not in engine
    engine.add("//b", id=1)
    assert engine.match(b"<a><b/></a>") == ["one", 1]
    with pytest.raises(MessageError, match="unclosed"):
        engine.match(b"<a>")


@pytest.mark.parametrize(
    ("query", "at"),
    [
        ("//a[not(b)]", "not(b)"),
        ("//a[2]", "2"),
        ("//a[contains(., 'x')]", "contains(., 'x')"),
        ("count(//a) > 2", "count(//a)"),
        ("//a/following::b", "following::b"),
        ("string(//a) = 'x'", "string(//a)"),
        ("/ = 'x'", "/ = 'x'"),
        ("<r>{ for $a in //a return $a }</r>", "<r>{ for $a in //a return $a }</r>"),
    ],
)
def test_what_is_beyond_the_tables_is_refused_with_the_place(query: str, at: str) -> None:
    with pytest.raises(QueryError) as caught:
        RelationalEngine().add(query)
    error = caught.value
    assert error.code == "not-relational" and error.span is not None
    assert query[error.span.start : error.span.end] == at


def test_numbers_follow_xpath() -> None:
    engine = Planned(plan="recursive")
    queries = ["//a = 1", "//a = '1'", "//a != 1", "//a > 0", "//a = 0", "//a != 'x'", "//a", "//a = ''"]
    engine.add_many(Subscription(query, query) for query in queries)
    automaton = Engine()
    automaton.add_many(Subscription(query, query) for query in queries)
    for value in ("1", "1.0", " 1 ", "1e2", "+1", "x", "", "-0", "0", "1<b/>0"):
        xml = f"<r><a>{value}</a></r>".encode()
        assert engine.match(xml) == automaton.match(xml), value


def test_a_message_with_new_tag_paths_is_read_once() -> None:
    engine = RelationalEngine()
    engine.add("//b[c = 1]", id=1)
    before = _kernel.documents_built()
    assert engine.match(b"<a><b><c>1</c></b></a>") == [1]
    assert engine.match(b"<a><d><b><c>1</c></b></d></a>") == [1]
    assert _kernel.documents_built() - before == 2
