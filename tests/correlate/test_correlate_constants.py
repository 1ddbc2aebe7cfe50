"""Correlations that differ in their constants: known shapes, equal blocks, and messages that constants tell apart."""

from __future__ import annotations

import os
from itertools import count
from random import Random

import pytest
from correlate_random import Arrivals, arrivals, queries
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from canonical_xml import canonical
from correlate_reference import evaluate
from twigcast import Broker, Limits, MessageError
from twigcast.correlate.default import Default
from twigcast.correlate.engine import Correlated, Correlations
from twigcast.engine.failures import Failure
from twigcast.errors import QueryError
from twigcast.ir.correlation import Correlation
from twigcast.lang.literals import LITERAL
from twigcast.lang.xscl import parse_correlation
from twigcast.units import SECOND

EXAMPLES = 500 if os.environ.get("TWIGCAST_RANDOM_TESTS") else 50
PAIR = "S//o->o[./id->x][./r = '{}'] FOLLOWED BY{{x = y, {} s}} S//p->p[./id->y]"
Row = tuple[object, ...]


def row(one: Correlated) -> Row:
    return one.subscription, one.messages, one.nodes, canonical(one.payload)


def varied(random: Random, text: str) -> str:
    """Return the same text with other constants, windows among them."""
    parts = LITERAL.split(text)
    for i in range(1, len(parts), 2):
        if parts[i][0] in "\"'":
            parts[i] = parts[i][0] + random.choice(["1", "2", "x", ""]) + parts[i][0]
        else:
            parts[i] = random.choice(["0", "1", "2", "5"])
    return "".join(parts)


def wanted(queries: dict[int, Correlation], stream: Arrivals, lateness: int | None) -> list[Row]:
    found = evaluate(dict(queries), stream, lateness=lateness)
    return [(one.subscription, one.messages, one.nodes, canonical(one.payload)) for one in found]


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(queries(), min_size=1, max_size=2), arrivals(), st.integers(0, 4), st.integers(0, 1 << 30))
def test_known_shapes_mean_what_parsing_says(texts: list[str], stream: Arrivals, lateness: int, seed: int) -> None:
    """Each shape comes again and again with other constants; subscriptions leave and come back between."""
    random = Random(seed)
    engine = Correlations(lateness=lateness * SECOND)
    parsed: dict[int, Correlation] = {}
    numbers = count()
    for text in texts:
        for one in [text, *(varied(random, text) for _ in range(6))]:
            number = next(numbers)
            try:
                parsed[number] = parse_correlation(one)
            except QueryError as error:
                with pytest.raises(QueryError) as raised:
                    engine.prepare(one)
                assert str(raised.value) == str(error)
                continue
            engine.add(number, engine.prepare(one))
            if random.random() < 0.5:
                engine.remove(number)
                if random.random() < 0.5:
                    engine.add(number, engine.prepare(one))
                else:
                    del parsed[number]
    assume(parsed)
    # the whole set at once, in which lateness is what was given
    found = [
        row(one)
        for number, source, time, xml in stream
        for one in engine.publish(xml, id=number, time=time, stream=source).results
    ]
    assert sorted(found, key=repr) == sorted(wanted(parsed, stream, lateness * SECOND), key=repr)


def test_a_known_shape_is_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    for n in range(3):
        broker.subscribe(PAIR.format(n, 5), id=n)
    monkeypatch.setattr("twigcast.lang.xscl.parser.XsclParser.parse", lambda self: 1 // 0)
    broker.subscribe(PAIR.format("new", 5), id="new")
    with pytest.raises(ZeroDivisionError):
        broker.subscribe(PAIR.format("new", 6), id="other window")
    broker.publish(b"<o><id>1</id><r>new</r></o>", id="a", time=1)
    assert [one.subscription for one in broker.publish(b"<p><id>1</id></p>", id="b", time=2)] == ["new"]


def test_constants_that_can_never_match_are_refused_in_a_known_shape() -> None:
    broker = Broker()
    text = "S//o->o[./id->x][. = {} and . = {}] FOLLOWED BY{{x = y, {} s}} S//p->p[./id->y]"
    for n in range(4):
        broker.subscribe(text.format(n, n, 5), id=n)
    with pytest.raises(QueryError, match="window is 0"):
        broker.subscribe(text.format(5, 5, 0))
    with pytest.raises(QueryError) as raised:
        broker.subscribe(PAIR.format("a", 0))
    assert raised.value.code == "never-matches"
    for n in range(4):
        broker.subscribe(PAIR.format(n, 5))
    with pytest.raises(QueryError, match="window is 0"):
        broker.subscribe(PAIR.format("a", 0))


def test_blocks_that_are_equal_but_for_constants() -> None:
    """One of them goes; the others go on, with what they have seen."""
    broker = Broker()
    for n in range(5):
        broker.subscribe(PAIR.format(n, 100), id=n)
    broker.subscribe(PAIR.format(2, 100), id="equal to 2")
    for n in range(5):
        broker.publish(b"<o><id>1</id><r>%d</r></o>" % n, id=f"o{n}", time=n)
    broker.unsubscribe(2)
    broker.unsubscribe(3)
    found = broker.publish(b"<p><id>1</id></p>", id="p", time=10)
    assert {(one.subscription, one.messages) for one in found} == {
        (0, ("o0", "p")),
        (1, ("o1", "p")),
        (4, ("o4", "p")),
        ("equal to 2", ("o2", "p")),
    }
    broker.unsubscribe("equal to 2")
    broker.subscribe(PAIR.format(3, 100), id=3)  # sees messages from now on
    assert {one.subscription for one in broker.publish(b"<p><id>1</id></p>", id="q", time=11)} == {0, 1, 4}
    for id in (0, 1, 3, 4):
        broker.unsubscribe(id)
    backend = broker.correlations.backend
    assert isinstance(backend, Default)
    assert not backend.blocks._written and backend.stats()["queries"] == 0


@pytest.mark.parametrize("kinds", ["both", "both left", "both left none"])
@pytest.mark.parametrize("join", ["x = y", "x = y AND k = l"])
def test_a_hot_value_and_constants_that_tell_its_messages_apart(join: str, kinds: str) -> None:
    """Very many messages share values; queries have a constant in no block, one, or both; messages come late, too."""
    random = Random(join)
    broker = Broker(lateness=5e-6)
    regions, more = 40, 12
    rules: dict[str, tuple[str | None, str | None, int]] = {}
    for n in range(regions):
        rules[f"both {n}"] = (f"r{n}", f"r{n}", 300)
        rules[f"left {n}"] = (f"r{n}", None, 20)
    for n in range(more):
        rules[f"none {n}"] = (None, None, n)
    rules = {id: rule for id, rule in rules.items() if id.split()[0] in kinds}
    for id, (left, right, window) in rules.items():
        one, other = (f"[./r = '{value}']" if value else "" for value in (left, right))
        query = f"S//o->o[./c->x][./k->k]{one} FOLLOWED BY{{{join}, {window / 1e6:f} s}} S//p->p[./c->y][./k->l]{other}"
        if window:
            broker.subscribe(query, id=id)
    seen: list[tuple[str, int, str, str, str]] = []
    newest = 0
    for n in range(400):
        tag, c, k, r = random.choice("op"), random.choice("aab"), str(random.randrange(3)), f"r{random.randrange(45)}"
        time = max(0, n - random.choice([0, 0, 0, 3, 9]))
        xml = f"<{tag}><c>{c}</c><k>{k}</k><r>{r}</r></{tag}>".encode()
        got = {(one.subscription, one.messages) for one in broker.publish(xml, id=n, time=time / 1e6)}
        expected = set()
        if time >= newest - 5:
            newest = max(newest, time)
            for place, (other, at, c_, k_, r_) in enumerate(seen):
                if {tag, other} != {"o", "p"} or c != c_ or (k != k_ and "AND" in join):
                    continue
                first, last = ((at, r_), (time, r)) if tag == "p" else ((time, r), (at, r_))
                messages = (place, n) if tag == "p" else (n, place)
                for id, (left, right, window) in rules.items():
                    if 0 < last[0] - first[0] <= window and left in (None, first[1]) and right in (None, last[1]):
                        expected.add((id, messages))
            seen.append((tag, time, c, k, r))
        else:
            seen.append(("late", time, c, k, r))
        assert got == expected, n


# -- many messages at once

QUERIES = (
    "S//a->x FOLLOWED BY{x = y, INF} S//b->y",
    "SELECT <r>{ $x }<n/>{ $y }</r> FROM S//a->x JOIN{x = y, INF} S//c->y",
    "SELECT <r t='{ $x/@k }'>{ $y/text() }</r> FROM S//a->x FOLLOWED BY{x = y, INF} S//b->y",
    "S//a[@k = '1']->x FOLLOWED BY{x = y, INF} S//b->y",
    "FROM S//c[. = 'x']->x",
    "//a",
    "//a[following-sibling::b]",
    "<r>{ for $v in //b return $v/text() }</r>",
)


def brokers(kinds: list[str], limits: Limits | None = None) -> tuple[Broker, Broker]:
    made = Broker(limits=limits), Broker(limits=limits)
    for broker in made:
        for n, query in enumerate(kinds):
            broker.subscribe(query, id=n, subscriber="ann" if n % 2 else None)
    return made


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.sampled_from(QUERIES), min_size=1, max_size=8), st.lists(arrivals(), max_size=3), st.booleans())
def test_many_messages_at_once_are_those_messages_one_by_one(
    kinds: list[str], some: list[Arrivals], tight: bool
) -> None:
    messages = [xml for stream in some for _, _, _, xml in stream]
    limits = Limits(max_message_results=3, max_result_bytes=40, max_message_result_bytes=90) if tight else None
    one, other = brokers(kinds, limits)
    singly: list[Failure] = []
    together: list[Failure] = []
    expected = [one.publish(xml, stream="S", failures=singly) for xml in messages]
    assert list(other.publish_many(messages, stream="S", failures=together)) == expected
    assert [(failure.id, str(failure.error)) for failure in together] == [
        (failure.id, str(failure.error)) for failure in singly
    ]
    assert one.correlations.stats() | {"watermark": 0} == other.correlations.stats() | {"watermark": 0}


def test_a_message_that_cannot_be_read_ends_a_list_of_messages() -> None:
    broker, _ = brokers([QUERIES[0]])
    found = broker.publish_many([b"<a>1</a>", b"<b>1</b>", b"<b>", b"<b>1</b>"], stream="S")
    assert [len(next(found)), len(next(found))] == [0, 1]
    with pytest.raises(MessageError):
        next(found)
    assert broker.correlations.stats()["messages"] == 2
    match = broker.publish(b"<b>1</b>", stream="S")[0]
    assert (match.message, match.messages) == (4, (1, 4))


def test_many_messages_with_more_results_than_one_may_have() -> None:
    """The kernel ends a call between two messages, and the next call goes on."""
    one, other = brokers(["S//a->x JOIN{x = y, INF} S//b->y"], Limits(max_message_results=20))
    messages = [b"<m><a>1</a><b>1</b></m>"] * 30
    assert list(one.publish_many(messages)) == [other.publish(xml) for xml in messages]


def test_a_kernel_that_is_replaced_knows_the_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twigcast.engine.engine.COMPACT_AFTER", 5)
    broker = Broker()
    for n in range(3):
        broker.subscribe(PAIR.format(n, 100), id=n)
    for n in range(8):
        broker.subscribe(f"/zz{n}/yy[. = 'v']", id=f"f{n}")
    for n in range(8):
        broker.unsubscribe(f"f{n}")
    broker.subscribe(PAIR.format("new", 100), id="new")
    messages = [b"<o><id>1</id><r>new</r></o>", b"<o><id>1</id><r>2</r></o>", b"<p><id>1</id></p>"]
    assert [found.subscriptions for found in broker.publish_many(messages)] == [[], [], [2, "new"]]
