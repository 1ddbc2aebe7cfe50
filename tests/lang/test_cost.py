"""The bound on what libxml2 may have to visit: never less than that, and not absurdly more."""

from __future__ import annotations

import pytest

from twigcast import Engine
from twigcast.lang.cost import Size, cost


def of(xpath: str, nodes: int, depth: int, width: int) -> float:
    return cost(xpath, (), Size(nodes, depth, width))


@pytest.mark.parametrize(
    "xpath",
    [
        "/r/a[c < d]",
        "//a[c = d]",
        "//a[not(c < d)]/e",
        "/r/a[sum(b/c) > d]",
        "//a[string-length(c) > d]",
    ],
)
def test_records_of_a_list_are_no_more_than_there_are(xpath: str) -> None:
    # ten thousand records of some children under one element
    assert of(xpath, 100_000, 5, 10_000) < 500_000_000
    assert of("/r/a[b/c = d/e and f]", 30_000, 5, 3_000) < 500_000_000


@pytest.mark.parametrize(
    "xpath",
    [
        "//*[//*[//* = 'x'] = 'y']",
        "//*[following::*[preceding::* = 'x']]",
        "count(//*[count(//*[count(//*) = 1]) = 1]) = 1",
        "//*[.//*[.//*[.//* = ../*]]]",
        "//a/following::*/preceding::*/following::*",
        "//*[/r/* = //*]",
    ],
)
def test_what_takes_minutes_is_beyond_the_bound(xpath: str) -> None:
    assert of(xpath, 10_000, 100, 5_000) > 500_000_000


def test_one_evaluation_from_each_node() -> None:
    n = 1_000
    # every node is visited for every node
    assert of("//*[//*]", n, 3, n) >= n * n
    assert of("//*[following::*]", n, 3, n) >= n * n
    # children of all nodes are no more than the nodes
    assert of("//*[*]", n, 3, n) < 20 * n


def test_a_list_of_some_size_is_answered() -> None:
    engine = Engine()
    engine.add("/r/a[c < d]", id="less")
    engine.add("/r/a[c > d]", id="more")
    failures: list[object] = []
    message = b"<r>" + b"<a><c>1</c><d>2</d></a>" * 5_000 + b"</r>"
    assert engine.match(message, failures=failures) == ["less"]  # type: ignore[arg-type]
    assert failures == []
