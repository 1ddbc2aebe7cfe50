"""A message is read once, whatever is asked of it, and transforms of any depth and number are evaluated on that."""

from __future__ import annotations

import pyarrow as pa
import pytest

from twigcast import _kernel
from twigcast.engine import Engine, Failure, Subscription

MESSAGE = b"<m><a x='1'>1</a><a>2</a></m>"


def mixed() -> Engine:
    engine = Engine()
    engine.add("//a[@x = 1]", id="filter")
    engine.add("//a", id="nodes", result="nodes")
    engine.add("<r>{ for $v in //a where $v = 2 return $v }</r>", id="transform")
    return engine


def test_filters_and_transforms_read_a_message_once() -> None:
    engine = mixed()
    batch = pa.record_batch({"id": range(7), "xml": pa.array([MESSAGE] * 7, pa.binary())})
    for ask, messages in (
        (lambda: engine.match(MESSAGE), 1),
        (lambda: engine.select(MESSAGE), 1),
        (lambda: engine.match_batch(batch), 7),
        (lambda: engine.select_batch(batch), 7),
    ):
        before = _kernel.documents_built()
        ask()
        assert _kernel.documents_built() - before == messages


def test_mere_paths_need_no_document() -> None:
    engine = Engine()
    engine.add("/m/a", id=1)
    before = _kernel.documents_built()
    assert engine.match(MESSAGE) == [1]
    assert _kernel.documents_built() == before


def test_rows_of_both_kinds_come_in_the_order_of_numbers() -> None:
    engine = mixed()
    engine.add("/m", id="last")
    assert engine.match(MESSAGE) == ["filter", "nodes", "transform", "last"]
    found = engine.select(MESSAGE)
    assert [(one.id, one.nodes, one.payload) for one in found] == [
        ("filter", None, None),
        ("nodes", [2, 5], None),
        ("transform", None, b"<r><a>2</a></r>"),
        ("last", None, None),
    ]


@pytest.mark.parametrize("depth", (60, 62, 63, 64, 65, 127, 128, 200, 900))
def test_depth_is_no_limit(depth: int) -> None:
    """Names on the way and conditions on ancestors work at any depth."""
    open_tags = b"".join(b"<b>" if level == depth // 2 else b"<a>" for level in range(depth))
    close_tags = b"".join(b"</b>" if level == depth // 2 else b"</a>" for level in reversed(range(depth)))
    xml = b"<m>" + open_tags + b"<x k='1'>v</x>" + close_tags + b"</m>"
    engine = Engine()
    engine.add("<r>{ for $v in //b where $v//x/@k = 1 return $v//x }</r>", id="below")
    engine.add("<r>{ for $v in //b//x[@k = 1] return $v/text() }</r>", id="found")
    engine.add("<r>{ for $v in //b[.//x = 'v']/a//x return <n>{ $v/@k }</n> }</r>", id="filtered")
    engine.add("<r>{ for $v in /m where $v//b//x = 'v' return <n>{ count($v//a) }</n> }</r>", id="counted")
    engine.add("<r>{ for $v in //b[.//x = 'w']//x return $v }</r>", id="never")
    made = {one.id: one.payload for one in engine.select(xml)}
    assert made == {
        "below": b"<r><x k='1'>v</x></r>",
        "found": b"<r>v</r>",
        "filtered": b'<r><n k="1"></n></r>',
        "counted": b"<r><n>%d</n></r>" % (depth - 1),
    }


def test_too_much_work_fails_alone() -> None:
    """A transform that takes too long on a message fails, and others of the message do not."""
    levels, leaves = 900, 40_000
    xml = b"<a>" * levels + b"<x/>" * leaves + b"</a>" * levels
    engine = Engine()
    engine.add_many(
        [
            Subscription("many", "<r>{ for $v in //a where $v//x return <n>{ count($v//x) }</n> }</r>"),
            Subscription("few", "<r>{ for $v in /a return <n>{ count($v/a) }</n> }</r>"),
            Subscription("filter", "//x"),
        ]
    )
    for ask in (engine.match, lambda xml, failures: [one.id for one in engine.select(xml, failures=failures)]):
        failures: list[Failure] = []
        assert ask(xml, failures=failures) == ["few", "filter"]
        assert [(one.id, one.error.code) for one in failures] == [("many", "transform-too-costly")]
    batch = pa.record_batch({"id": [1], "xml": pa.array([xml], pa.binary())})
    for answer in (engine.match_batch(batch), engine.select_batch(batch)):
        (failed,) = answer.column("failures").to_pylist()
        assert [one["code"] for one in failed] == ["transform-too-costly"]
