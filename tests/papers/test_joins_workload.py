"""The queries and messages of the join experiments."""

from __future__ import annotations

from itertools import islice

import pytest

from twigcast.lang.xscl import parse_correlation
from twigcast.papers.joins.workload import JoinSchema, feed, feed_items, join_queries, three_level, two_level


@pytest.mark.parametrize("schema", [two_level(), three_level(), feed()], ids=["two-level", "three-level", "feed"])
@pytest.mark.parametrize("channels", [0, 418])
def test_text_and_correlation_say_the_same(schema: JoinSchema, channels: int) -> None:
    for query in islice(join_queries(schema, channels=channels, zipf=0.2), 100):
        assert parse_correlation(query.text) == query.correlation, query.text


def test_the_papers_feed_workload_has_few_distinct_queries() -> None:
    queries = {tuple(sorted(one.pairs)) for one in islice(join_queries(feed(), zipf=0.0), 100_000)}
    assert len(queries) == 1_545
    distinct = {(tuple(sorted(q.pairs)), q.only) for q in islice(join_queries(feed(), channels=418), 20_000)}
    assert len(distinct) > 19_900


def test_messages() -> None:
    schema = three_level(2)
    assert schema.message("abcd") == (
        b"<item><part1><leaf1>a</leaf1><leaf2>b</leaf2></part1><part2><leaf1>c</leaf1><leaf2>d</leaf2></part2></item>"
    )
    items = list(islice(feed_items(), 50))
    assert items == list(islice(feed_items(), 50))
    assert all(item.count(b"</") == 6 for item in items)
