"""Sharing the budget of a message: the share itself, and the same answer over every way that results take."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twigcast import Broker, Limits, papers
from twigcast.correlate.engine import Correlations
from twigcast.engine import Engine, Subscription
from twigcast.engine.shares import BUDGET_BYTES, BUDGET_RESULTS, Result, measure, share, within_budget
from twigcast.errors import OptionError
from twigcast.lang.xscl import parse_correlation
from twigcast.papers.plans.sharing import Sharing
from twigcast.spark.stages.outcome import Asked, outcomes, payloads

SIZES = st.lists(st.integers(0, 50), max_size=12)


@given(SIZES, st.integers(0, 200))
def test_the_share_is_the_largest_for_which_the_budget_suffices(sizes: list[int], budget: int) -> None:
    level = share(sizes, budget)
    if level is None:
        assert sum(sizes) <= budget
        return
    assert sum(min(size, level) for size in sizes) <= budget
    assert sum(min(size, level + 1) for size in sizes) > budget
    assert level >= budget // len(sizes)


class _Item:
    def __init__(self, wanted: int, had: int) -> None:
        self.wanted, self.had = wanted, had

    def cut(self, level: int) -> None:
        self.had = min(self.had, level)


@given(SIZES, st.integers(0, 100), st.randoms(use_true_random=False))
def test_what_is_given_out_on_the_way_is_what_would_be_at_the_end(sizes: list[int], budget: int, dice: Random) -> None:
    level = share(sizes, budget)
    wanted = list(sizes)
    dice.shuffle(wanted)
    sharing = Sharing[_Item](budget, lambda item: item.had, _Item.cut)
    for size in wanted:
        sharing.add(_Item(size, min(size, sharing.share)), beyond=size > sharing.share)
        assert sum(item.had for item in sharing.items) <= budget + budget // 4
    for item in sharing.finish():
        assert item.had == (item.wanted if level is None else min(item.wanted, level))


def _fragments(*sizes: int) -> Result:
    return None, [b"x" * size for size in sizes], True, None, None


@given(st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=8), st.integers(1, 40), st.integers(1, 20))
def test_results_are_cut_to_both_budgets_whatever_their_order(lists: list[list[int]], size: int, count: int) -> None:
    limits = Limits(max_message_results=count, max_message_result_bytes=size)
    found = [(key, _fragments(*sizes)) for key, sizes in enumerate(lists)]
    cut = within_budget(found, limits)
    measured = [measure(result) for _, result in cut]
    assert sum(n for n, _ in measured) <= count and sum(n for _, n in measured) <= size
    for sizes, (_, result) in zip(lists, cut, strict=True):
        assert result[1] == [b"x" * n for n in sizes][: len(result[1] or ())]
        is_all = len(result[1] or ()) == len(sizes)
        assert result[2] == is_all and (result[4] is None) == is_all
        if len(sizes) <= count // len(lists) and sum(sizes) <= size // len(lists):
            assert is_all
    assert dict(within_budget(found[::-1], limits)) == dict(cut)


# -- over every path

QUERIES = [
    *(Subscription(f"kernel {i}", f"//a[not(@x{i})]", result="fragments") for i in range(4)),
    *(Subscription(f"residual {i}", f"//a[last() >= 1 or id('x{i}')]", result="fragments") for i in range(4)),
    *(Subscription(f"nodes {i}", f"//a[not(@y{i})]", result="nodes") for i in range(3)),
    *(
        Subscription(f"transform {i}", f"<r>{{ for $a in //a where not($a/@x{i}) return <b>{{ $a }}</b> }}</r>")
        for i in range(3)
    ),
    Subscription("slow", "<r>{ for $a in //a where not($a/preceding::x) return <b>{ $a }</b> }</r>"),
    Subscription("small", "//small", result="fragments"),
    Subscription("small transform", "<r>{ for $a in //small return <b/> }</r>"),
    Subscription("plain", "//a"),
]
XML = b"<m><small/>" + b"".join(b"<a><b>%b</b></a>" % (b"x" * n) for n in range(100)) + b"</m>"


@pytest.mark.parametrize(
    "limits",
    [
        Limits(max_message_result_bytes=8000),
        Limits(max_message_results=300),
        Limits(max_message_results=300, max_message_result_bytes=3000),
        Limits(max_message_result_bytes=8000, max_result_bytes=500, max_result_nodes=5),
    ],
    ids=["bytes", "results", "both", "own"],
)
def test_the_same_answer_over_every_path(limits: Limits) -> None:
    engine = Engine(limits=limits)
    engine.add_many(QUERIES)
    by_id = {one.id: one for one in engine.select(XML)}
    sizes = [measure((one.nodes, one.fragments, one.complete, one.payload, one.reason)) for one in by_id.values()]
    assert sum(n for n, _ in sizes) <= limits.max_message_results
    assert sum(n for _, n in sizes) <= limits.max_message_result_bytes
    assert {"small", "small transform", "plain"} <= by_id.keys()
    assert all(by_id[id].complete for id in ("small", "small transform", "plain"))
    cut = {one.reason for one in by_id.values()} - {None}
    assert cut and cut <= {BUDGET_BYTES, BUDGET_RESULTS, "limit-result-nodes", "limit-result-bytes"}

    shuffled = list(QUERIES)
    Random(7).shuffle(shuffled)
    other = Engine(limits=limits)
    other.add_many(shuffled)
    assert {one.id: one for one in other.select(XML)} == by_id

    batch = pa.RecordBatch.from_pydict({"id": [0, 1, 2], "xml": [XML, b"<m/>", XML]})
    ids = engine.ids.to_pylist()
    rows = engine.select_batch(batch).column("matches").to_pylist()
    for row in (rows[0], rows[2]):
        assert {ids[one["subscription"]] for one in row} == by_id.keys()
        for one in row:
            same = by_id[ids[one["subscription"]]]
            got = tuple(one[name] for name in ("nodes", "fragments", "complete", "payload", "reason"))
            assert got == (same.nodes, same.fragments, same.complete, same.payload, same.reason)

    broker = Broker(limits=limits)
    for s in QUERIES:
        broker.subscribe(s.query, id=s.id, result=s.result)
    for match in broker.publish(XML):
        same = by_id[match.subscription]
        got = match.nodes, match.fragments, match.complete, match.payload, match.reason
        assert got == (same.nodes, same.fragments, same.complete, same.payload, same.reason)

    (outcome,) = outcomes([batch.slice(0, 1)], Asked(engine, select=True))
    found = outcome.matches.flatten()
    for number, payload in zip(found.field("subscription").to_pylist(), payloads(found).to_pylist(), strict=True):
        same = by_id[ids[number]]
        marked = payload is not None and b'complete="false"' in payload
        assert marked == (not same.complete)
        assert same.reason is None or f'reason="{same.reason}"'.encode() in payload


def test_a_batch_whose_residual_results_are_many_comes_in_slices() -> None:
    engine = Engine()
    engine.add("//a[last() >= 1 or id('x')]", id=1, result="fragments")
    batch = pa.RecordBatch.from_pydict({"id": list(range(20)), "xml": [b"<a>%b</a>" % (b"x" * 1000)] * 20})
    parts = list(engine.select_batches(batch, max_bytes=3000))
    assert len(parts) > 3 and sum(part.num_rows for part in parts) == 20
    assert all(one["complete"] for part in parts for row in part.column("matches").to_pylist() for one in row)


def test_more_subscriptions_than_results_get_none() -> None:
    engine = Engine(limits=Limits(max_message_results=5))
    engine.add_many([Subscription(i, "<r>{ for $a in /a return <b/> }</r>") for i in range(6)])
    assert {(one.payload, one.reason) for one in engine.select(b"<a/>")} == {(None, BUDGET_RESULTS)}


@pytest.mark.parametrize("name", ["max_message_results", "max_message_result_bytes"])
def test_the_budget_is_a_limit_like_others(name: str) -> None:
    for wrong in (0, -1, 2**31, True, "1"):
        with pytest.raises(OptionError):
            Limits(**{name: wrong})


# -- correlations

LOUD = "S//a->x FOLLOWED BY{x=y, INF} S//a->y"


def _joined(limits: Limits, queries: dict[str, str], strategy: str = "default") -> dict[str, list[object]]:
    """What the second of two messages completes, by subscription: payloads, or the reason in place of the rest."""
    made = papers.Correlations(limits=limits, strategy=strategy)
    for id, query in queries.items():
        made.add(id, parse_correlation(query))
    xml = b"<m>" + b"".join(b"<a>v<n>%d</n></a>" % i for i in range(0)) + b"<a>v</a>" * 12 + b"<few>1</few></m>"
    made.publish(xml, id="one", time=1, stream="S")
    outcome = made.publish(xml, id="two", time=2, stream="S")
    found: dict[str, list[object]] = {id: [] for id in queries}
    for one in outcome.results:
        found[str(one.subscription)].append(one.nodes if one.payload is not None else one.reason)
        assert one.messages == (("one", "two") if one.payload is not None else ("two",))
    return found


def test_correlations_share_results_fairly_and_whatever_their_order() -> None:
    queries = {f"loud {i}": LOUD.replace("{x=y, INF}", f"{{x=y, {i + 5}}}") for i in range(3)}
    queries["few"] = LOUD.replace("//a", "//few")
    limits = Limits(max_message_results=100)
    found = _joined(limits, queries)
    assert found["few"] == [(found["few"][0])] and isinstance(found["few"][0], tuple)
    for i in range(3):
        assert len(found[f"loud {i}"]) == 34 and found[f"loud {i}"][-1] == "budget-results"
    assert _joined(limits, dict(reversed(queries.items()))) == found
    assert {len(one) for one in _joined(limits, queries, "sequential").values()} == {1, 34}
    own = _joined(Limits(max_result_nodes=10), queries)
    assert [own[f"loud {i}"][-1] for i in range(3)] == ["limit-result-nodes"] * 3
    assert len(own["loud 0"]) == 11


def test_a_narrow_window_gets_its_results_beside_a_wide_one() -> None:
    """Messages are joined in the order of their arrival: those of a narrow window come last."""
    broker = Broker(limits=Limits(max_message_results=40))
    broker.subscribe("S/m->x[k->v] FOLLOWED BY{v=w, 1000} S/m->y[k->w]", id="wide")
    broker.subscribe("S/m->x[k->v] FOLLOWED BY{v=w, 2} S/m->y[k->w]", id="narrow")
    for at in range(100):
        broker.publish(b"<m><k>1</k></m>", id=at, time=at, stream="S")
    found = broker.publish(b"<m><k>1</k></m>", id="last", time=100, stream="S")
    narrow = [one.messages for one in found if one.subscription == "narrow"]
    wide = [one.messages for one in found if one.subscription == "wide"]
    assert narrow == [(98, "last"), (99, "last")]
    assert wide == [*((at, "last") for at in range(38)), ("last",)]


def test_derived_messages_share_the_budget_of_the_message_that_completed_them() -> None:
    broker = Broker(limits=Limits(max_message_result_bytes=4000))
    broker.subscribe(f"SELECT <d>{{ $x }}{{ $y }}</d> FROM {LOUD} PUBLISH D", id="made")
    broker.subscribe("//a", id="reader", stream="D", result="fragments")
    broker.subscribe("//few", id="few", result="fragments")
    xml = b"<m>" + b"<a>vvvvvvvvvv</a>" * 20 + b"<few/></m>"
    broker.publish(xml, id=1, time=1, stream="S")
    found = broker.publish(xml, id=2, time=2, stream="S")
    size = sum(sum(map(len, one.fragments or ())) + len(one.payload or b"") for one in found)
    assert size <= 4000
    assert [one.complete for one in found if one.subscription == "few"] == [True]
    assert {one.reason for one in found if one.subscription == "made"} == {None, "budget-bytes"}
    assert {one.reason for one in found if one.subscription == "reader"} == {None, "budget-bytes"}


def test_many_messages_at_once_are_cut_as_one_by_one() -> None:
    limits = Limits(max_message_results=30, max_message_result_bytes=2000)
    queries = [f"S//a->x[@q{i} or not(@q{i})] FOLLOWED BY{{x=y, INF}} S//a->y" for i in range(2)] + [LOUD]

    def made() -> Correlations:
        one = Correlations(limits=limits)
        for number, query in enumerate(queries):
            one.add(number, parse_correlation(query))
        return one

    messages = [(b"<m>" + b"<a>v</a>" * (at % 7) + b"</m>", at, at, "S") for at in range(12)]
    each, together = made(), made()
    expected = {}
    for place, (xml, id, time, stream) in enumerate(messages):
        outcome = each.publish(xml, id=id, time=time, stream=stream)
        if outcome.results:
            expected[place] = outcome.results
    assert {place: outcome.results for place, outcome in together.publish_all(messages)} == expected  # type: ignore[union-attr]
    assert any(one.reason for results in expected.values() for one in results)
