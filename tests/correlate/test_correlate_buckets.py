"""A bucket of correlations and its state, without Spark: restarts, other workers, failed attempts."""

from __future__ import annotations

import os
from typing import Any

from correlate_random import Arrivals, arrivals, queries
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from canonical_xml import canonical
from correlate_reference import evaluate
from twigcast.errors import QueryError
from twigcast.lang.xscl import parse_correlation
from twigcast.limits import Limits
from twigcast.spark.stages import correlate
from twigcast.spark.stages.correlate import Blob, Buckets, Incoming, Stored, process
from twigcast.spark.stages.standing import Standing, spread
from twigcast.units import SECOND

EXAMPLES = 300 if os.environ.get("TWIGCAST_RANDOM_TESTS") else 40
ALL = 1000 * SECOND


class Store:
    """As Spark's: what an attempt writes is there only once it has been committed."""

    def __init__(self) -> None:
        self.committed: tuple[Stored | None, str | None, dict[int, Blob]] = (None, None, {})
        self.begin()

    def begin(self) -> None:
        stored, since, blobs = self.committed
        self._stored, self._since, self.blobs = stored, since, dict(blobs)

    def commit(self) -> None:
        self.committed = (self._stored, self._since, dict(self.blobs))

    def stored(self) -> Stored | None:
        return self._stored

    def store(self, stored: Stored) -> None:
        self._stored = stored

    def blob(self, number: int) -> Blob | None:
        return self.blobs.get(number)

    def put(self, number: int, blob: Blob) -> None:
        self.blobs[number] = blob

    def drop(self, number: int) -> None:
        del self.blobs[number]

    def since(self) -> str | None:
        return self._since

    def set_since(self, text: str) -> None:
        self._since = text


def batch(task: Buckets, store: Store, messages: Arrivals, *, fail: bool = False) -> list[dict[str, Any]]:
    store.begin()
    incoming = [Incoming(stream, str(number), time, xml) for number, stream, time, xml in messages]
    found = list(process(task, 0, incoming, store))
    if not fail:
        store.commit()
    return found


def shown(rows: list[dict[str, Any]]) -> list[tuple[str, tuple[str, ...], bytes]]:
    return sorted(
        (r["subscription"], tuple(r["messages"]), canonical(r["payload"])) for r in rows if r["kind"] == "result"
    )


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(queries(), min_size=1, max_size=3), arrivals(most=8), st.data())
def test_whatever_happens_each_result_comes_once(texts: list[str], stream: Arrivals, data: st.DataObject) -> None:
    standing = []
    for number, text in enumerate(texts):
        try:
            parse_correlation(text)
        except QueryError:
            continue
        standing.append(Standing(str(number), text))
    assume(standing)
    # a query may come with a later restart: it sees what comes after
    starts = {one.id: data.draw(st.sampled_from((0, 0, 1))) for one in standing}
    cut = data.draw(st.integers(0, len(stream)))
    store, found = Store(), []
    for part, messages in enumerate((stream[:cut], stream[cut:])):
        task = Buckets((tuple(one for one in standing if starts[one.id] <= part),), lateness=ALL)
        at = 0
        while at < len(messages):
            size = data.draw(st.integers(1, 3))
            match data.draw(st.sampled_from(("go on", "fail", "other worker", "back"))):
                case "fail":
                    batch(task, store, messages[at : at + size], fail=True)
                case "other worker":
                    correlate._held.clear()
                case "back":  # another worker does one, and this one has to catch up
                    mine = dict(correlate._held)
                    correlate._held.clear()
                    found += batch(task, store, messages[at : at + 1])
                    at += 1
                    correlate._held.clear()
                    correlate._held.update(mine)
                    continue
            found += batch(task, store, messages[at : at + size])
            at += size
    wanted = []
    for one in standing:
        seen = stream if starts[one.id] == 0 else stream[cut:]
        # the messages of a micro-batch are taken in the order of time: that changes no result
        results = evaluate({one.id: one.parsed()}, seen)
        wanted += [(str(r.subscription), tuple(map(str, r.messages)), canonical(r.payload)) for r in results]
    assert shown(found) == sorted(wanted)


def test_blobs_go_when_their_window_has_passed() -> None:
    task = Buckets(((Standing("q", "S/a->x FOLLOWED BY{x = y, 10} S/a->y"),),), lateness=0)
    store = Store()
    sizes = []
    for number in range(60):
        batch(task, store, [(number, "S", number * SECOND, b"<a>%d</a>" % (number % 7))])
        sizes.append(len(store.committed[2]))
    assert max(sizes) <= 12 and sizes[-1] == sizes[-20]


def test_late_messages_are_told() -> None:
    task = Buckets(((Standing("q", "S/a->x JOIN{x = y, 10} S/a->y"),),), lateness=5 * SECOND)
    store = Store()
    assert batch(task, store, [(1, "S", 20 * SECOND, b"<a>1</a>")]) == []
    rows = batch(task, store, [(2, "S", 14 * SECOND, b"<a>1</a>"), (3, "S", 15 * SECOND, b"<a>1</a>")])
    assert [row["message"] for row in rows if row["kind"] == "late"] == ["2"]
    assert [row["messages"] for row in rows if row["kind"] == "result"] == [["1", "3"], ["3", "1"]]


def test_queries_that_read_each_other_stay_together() -> None:
    many = [Standing(f"q{i}", f"S/a{i}->x JOIN{{x = y, 10}} S/b->y") for i in range(40)]
    chain = [
        Standing("one", "SELECT $x FROM S/a->x PUBLISH first"),
        Standing("two", "SELECT $x FROM first/result->x PUBLISH second"),
        Standing("three", "second/result->x JOIN{x = y, 10} S/b->y"),
    ]
    by_bucket = spread([*many, *chain], 4)
    assert sum(map(len, by_bucket)) == 43 and all(by_bucket)
    homes = {one.id: number for number, some in enumerate(by_bucket) for one in some}
    assert homes["one"] == homes["two"] == homes["three"]
    assert by_bucket == spread([*many, *chain], 4)


def test_results_that_are_cut_are_marked() -> None:
    """The mark is a delivery like any other, with an id of its own."""
    standing = (
        Standing("loud", "S//a->x FOLLOWED BY{x = y, INF} S//a->y"),
        Standing("few", "S//b->x FOLLOWED BY{x = y, INF} S//b->y"),
    )
    task = Buckets((standing,), lateness=ALL, limits=Limits(max_message_results=10))
    xml = b"<m>" + b"<a>1</a>" * 20 + b"<b>1</b></m>"
    rows = batch(task, Store(), [(1, "S", SECOND, xml), (2, "S", 2 * SECOND, xml)])
    loud = [row for row in rows if row["subscription"] == "loud"]
    assert len([row for row in rows if row["subscription"] == "few"]) == 1
    assert len(loud) == 10 and len({row["message"] for row in loud}) == 10
    assert loud[-1]["payload"] == b'<results complete="false" reason="budget-results"></results>'
    assert loud[-1]["messages"] == ["2"]
