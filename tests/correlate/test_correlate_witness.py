"""What one process sees of messages, joined by another: the results are those of one that reads the messages itself."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pyarrow as pa
from correlate_random import Arrivals, arrivals, queries
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from twigcast import _kernel
from twigcast.correlate.default import Default
from twigcast.correlate.engine import Correlations, Outcome
from twigcast.engine import Engine
from twigcast.errors import QueryError
from twigcast.ir.correlation import Correlation
from twigcast.lang.xscl import parse_correlation
from twigcast.units import SECOND

EXAMPLES = 500 if os.environ.get("TWIGCAST_RANDOM_TESTS") else 60
LATE = 1000 * SECOND


def witnesses(correlations: Sequence[Correlation], messages: Arrivals) -> list[bytes | None]:
    """Return what a process with these correlations sees of messages."""
    engine = Engine()
    engine.add("//*", id="filter")
    backend = Default(engine=engine, portable=True)
    for number, one in enumerate(correlations):
        backend.add(number, one)
    blocks = backend.blocks
    found: list[bytes | None] = []
    for _, stream, _, xml in messages:
        batch = pa.record_batch({"id": [0], "xml": pa.array([xml], pa.binary())})
        (answer,) = engine.process_batches(batch, streams=blocks.streams(stream, False))
        found += answer.column("witness").to_pylist()
    return found


def results(
    correlations: Sequence[Correlation], messages: Arrivals, seen: list[bytes | None] | None
) -> list[tuple[int, str]]:
    """Return what comes of messages, in words; without those that nothing was seen in there is no XML."""
    engine = Correlations(lateness=LATE, portable=seen is not None)
    for number, one in enumerate(correlations):
        engine.add(number, one)
    given = [
        (None if seen is not None and seen[at] is None else xml, str(number), time, stream)
        for at, (number, stream, time, xml) in enumerate(messages)
    ]
    found = []
    for place, outcome in engine.publish_all(given, seen):
        assert isinstance(outcome, Outcome), outcome
        found += [(place, repr(one)) for one in [*outcome.results, *outcome.derived]]
    return found


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(queries(), min_size=1, max_size=4), arrivals(most=8), st.data())
def test_messages_need_not_be_read_again(texts: list[str], messages: Arrivals, data: st.DataObject) -> None:
    parsed: list[Correlation] = []
    try:
        parsed = [parse_correlation(text, {}, None) for text in texts]
        expected = results(parsed, messages, None)
    except QueryError:
        assume(False)
    others = data.draw(st.permutations(parsed))  # blocks and columns have other numbers
    seen = witnesses(others, messages)
    before = _kernel.documents_built()
    assert results(parsed, messages, seen) == expected
    if not expected:  # payloads are made of the messages
        assert _kernel.documents_built() == before


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(queries(), min_size=2, max_size=4), arrivals(most=8))
def test_what_is_not_known_is_left_out(texts: list[str], messages: Arrivals) -> None:
    """The reader has correlations that are gone: the others get their results."""
    parsed: list[Correlation] = []
    try:
        parsed = [parse_correlation(text, {}, None) for text in texts]
        expected = results(parsed[1:], messages, None)
    except QueryError:
        assume(False)
    assert results(parsed[1:], messages, witnesses(parsed, messages)) == expected


def test_a_value_that_the_reader_did_not_compare_is_read_from_the_message() -> None:
    text = "SELECT <r>{{$k}}{{$l}}</r> FROM S//a->x[.//k->k][.//l->l] JOIN{{{} = m, INF}} S//b->y[.//k->m]"
    one, other = (parse_correlation(text.format(name), {}, None) for name in "kl")
    messages: Arrivals = [
        (1, "S", 1, b"<a><k>1</k><l>2</l></a>"),
        (2, "S", 2, b"<b><k>2</k></b>"),
        (3, "S", 3, b"<b><k>1</k></b>"),
    ]
    seen = witnesses([one], messages)
    assert results([other], messages, seen) == results([other], messages, None) != []
    assert results([one], messages, [b"x" * 40, b"", seen[2]]) == results([one], messages, None) != []


def test_bindings_of_nodes_that_a_variable_does_not_have_are_read_from_the_message() -> None:
    parsed = [parse_correlation("S//a->x[.//k->k] JOIN{k = m, INF} S//b->y[.//k->m]", {}, None)]
    messages: Arrivals = [(1, "S", 1, b"<a><k>1</k><k>2</k></a>"), (2, "S", 2, b"<b><k>2</k></b>")]
    first, second = witnesses(parsed, messages)
    assert first is not None
    expected = results(parsed, messages, None)
    assert expected and results(parsed, messages, [first, second]) == expected
    for node in (0, 9, 2**32 - 2):  # the last number is the node of the second k
        assert results(parsed, messages, [first[:-4] + node.to_bytes(4, "little"), second]) == expected


def test_a_stream_that_correlations_publish_is_joined_too() -> None:
    texts = (
        "S//a->x[.//k->k] JOIN{k = m, INF} S//b->y[.//k->m] PUBLISH d",
        "d//k->k JOIN{k = m, INF} S//c->y[.//k->m]",
    )
    parsed = [parse_correlation(text, {}, None) for text in texts]
    messages: Arrivals = [
        (1, "S", 1, b"<a><k>1</k></a>"),
        (2, "S", 2, b"<b><k>1</k></b>"),
        (3, "T", 3, b"<c><k>1</k></c>"),
        (4, "S", 4, b"<c><k>1</k></c>"),
    ]
    assert results(parsed, messages, witnesses(parsed, messages)) == results(parsed, messages, None) != []
