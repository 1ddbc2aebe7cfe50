"""Messages deeper than the kernel's masks of depths (63 levels): the same results, block by block."""

from __future__ import annotations

from random import Random

import pytest

from canonical_xml import canonical
from correlate_reference import evaluate
from twigcast import Broker
from twigcast.broker import Failure
from twigcast.correlate.default import TOO_MUCH
from twigcast.correlate.engine import Correlations
from twigcast.lang.xscl import parse_correlation
from twigcast.units import SECOND

QUERIES = {
    "anywhere": "S//a->x[b->v] FOLLOWED BY{v = w, INF} S//c->y[.//b->w]",
    "chain": "S//a->x[b->v] JOIN{v = w, 5} S//c->y[b->w] FOLLOWED BY{w < u, 9} S//a->z[b->u][@k = 'yes']",
    "whole": "S AS $x JOIN{$x//a/b = $y//c/b, 3} S AS $y",
    "values": "S//a->x[b > 2][b->v] JOIN{v = w, 9} S/n//c->y[b->w][b/text()->t]",
}
ATTRIBUTE = ' k="yes"'


def deep(levels: int, inner: str) -> bytes:
    return ("<n>" * levels + inner + "</n>" * levels).encode()


def stream(count: int) -> list[tuple[int, str, int, bytes]]:
    chance = Random(3)
    rows = []
    for number in range(count):
        inner = "".join(
            f"<{tag}{chance.choice(('', ATTRIBUTE))}><b>{chance.randrange(4)}</b></{tag}><d>t</d>"
            for tag in chance.choices("ac", k=chance.randrange(1, 4))
        )
        rows.append((number, "S", number * SECOND, deep(chance.choice((1, 2, 63, 64, 100)), inner)))
    return rows


def test_deep_messages_join_like_others() -> None:
    correlations = {id: parse_correlation(query) for id, query in QUERIES.items()}
    engine = Correlations(lateness=100 * SECOND)
    for id, correlation in correlations.items():
        engine.add(id, correlation)
    rows = stream(16)
    found = [
        (one.subscription, one.messages, one.nodes, canonical(one.payload))
        for number, source, time, xml in rows
        for one in engine.publish(xml, id=number, time=time, stream=source).results
    ]
    wanted = evaluate(dict(correlations), rows)
    assert found == [(one.subscription, one.messages, one.nodes, canonical(one.payload)) for one in wanted]
    assert {one.subscription for one in wanted} == set(QUERIES)
    # blocks that are gone are not asked any more
    for id in QUERIES:
        engine.remove(id)
    assert engine.publish(rows[0][3], id=99, time=99 * SECOND, stream="S").results == []


@pytest.mark.parametrize("told", [True, False])
def test_what_is_too_much_for_correlations_still_reaches_filters(told: bool, caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker()
    broker.subscribe("//b", id="filter")
    # each node of a deep chain has all others below it
    broker.subscribe("S//n->x[.//n->y][.//b->v] JOIN{v = w AND y != w, INF} S//b->w", id="joins")
    first = broker.publish(b"<b>1</b>", id="m1", time=1, stream="S")
    hostile = b"<n>" * 1000 + b"<n/>" * 200_000 + b"<b>1</b>" + b"</n>" * 1000
    failures: list[Failure] | None = [] if told else None
    second = broker.publish(hostile, id="m2", time=2, stream="S", failures=failures)
    assert [match.subscription for match in (*first, *second)] == ["filter", "filter"]
    if failures is None:
        assert "the subscription 'joins' failed on 'm2'" in caplog.text
    else:
        assert [(one.id, one.error.code) for one in failures] == [("joins", TOO_MUCH)]
