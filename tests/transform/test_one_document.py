"""A message is read once, whatever is asked of it, and transforms of any depth and number are evaluated on that."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from twigcast import _kernel
from twigcast.broker import Broker
from twigcast.cli import cli, correlate
from twigcast.correlate.default import Seen
from twigcast.engine import Engine, Failure, Subscription, TextPath
from twigcast.errors import QueryError
from twigcast.schema import dtd_schema

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


def correlating() -> Broker:
    broker = Broker()
    broker.subscribe("//a[@x = 1]", id="filter")
    broker.subscribe("//a[count(../a) = 2]", id="residual", result="nodes")
    broker.subscribe("<r>{ for $v in //a where $v = 2 return $v }</r>", id="transform")
    return broker


@pytest.mark.parametrize("streams", (("", ""), ("S", "S"), ("S", "T"), ("S", "")))
def test_correlations_read_with_the_other_subscriptions(streams: tuple[str, str]) -> None:
    """Blocks of any streams are evaluated on the document that filters, residual queries and transforms have."""
    broker = correlating()
    left, right = streams
    broker.subscribe(f"{left}//m->v[.//k->k] FOLLOWED BY{{k=l, 1000}} {right}//n->w[.//k->l]", id="join")
    before = _kernel.documents_built()
    found = broker.publish(MESSAGE.replace(b"</m>", b"<k>1</k></m>"), stream=left or None, time=1)
    assert found.subscriptions == ["filter", "residual", "transform"]
    assert _kernel.documents_built() - before == 1
    # several nodes for a variable are no reason to read it again
    many = MESSAGE.replace(b"<m>", b"<n>").replace(b"</m>", b"<k>2</k><k>3</k></n>")
    assert len(broker.publish(many, stream=right or None, time=2)) == 3
    assert _kernel.documents_built() - before == 2


def test_blocks_stay_when_the_engine_is_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Correlations go on with the kernel that takes the place of the engine's, with what was stored before."""
    monkeypatch.setattr("twigcast.engine.engine.COMPACT_AFTER", 1)
    broker = correlating()
    broker.subscribe("S//m->v[.//k->k] FOLLOWED BY{k=l, 1000} S//n->w[.//k->l]", id="join")
    broker.publish(b"<m><k>1</k></m>", stream="S", time=1)
    kernel = broker.engine.kernel
    for id in ("filter", "residual", "transform"):
        broker.unsubscribe(id)
    assert broker.engine.kernel is not kernel
    assert [one.subscription for one in broker.publish(b"<n><k>1</k></n>", stream="S", time=2)] == ["join"]
    broker.unsubscribe("join")
    assert not broker.publish(b"<n><k>1</k></n>", stream="S", time=3)


def test_what_was_seen_before_a_change_of_blocks_is_read_again() -> None:
    """A correlation that comes while a message is being matched sees all of the message or nothing."""
    broker = correlating()
    broker.subscribe("S//m->v FOLLOWED BY{v=w, 1000} S//n->w", id="other")
    correlations = broker.correlations
    version, streams = correlations.asked_of("S")
    xml = b"<m><k>1</k></m>"
    witness = broker.engine.process(xml, [], streams).witness
    broker.subscribe("S//m->v[.//k->k] FOLLOWED BY{k=l, 1000} S//n->w[.//k->l]", id="join")
    correlations.publish(xml, id=1, time=1, stream="S", seen=Seen(version, witness))
    found = correlations.publish(b"<n><k>1</k></n>", id=2, time=2, stream="S").results
    assert [one.subscription for one in found] == ["other", "join"]


def test_a_message_is_valid_by_what_was_read() -> None:
    """A schema that rejects takes what the kernel has read; a rejected message matches nothing."""
    schema = dtd_schema(b"<!ELEMENT m (a*)><!ELEMENT a (#PCDATA)><!ATTLIST a x CDATA #IMPLIED>")
    for select in (False, True):
        engine = Engine(schema=schema, on_invalid="reject")
        engine.add("//a[@x = 1]", id="filter")
        engine.add("//*[count(a) = 2]", id="residual", result="nodes")
        engine.add("<r>{ for $v in //a where $v = 2 return $v }</r>", id="transform")
        xml = [MESSAGE, b"<m><b/><a x='1'>1</a></m>", b"<m", MESSAGE]
        batch = pa.record_batch({"id": range(4), "xml": pa.array(xml, pa.binary())})
        before = _kernel.documents_built()
        answer = engine.select_batch(batch) if select else engine.match_batch(batch)
        assert _kernel.documents_built() - before == 4
        assert [len(found) for found in answer.column("matches").to_pylist()] == [3, 0, 0, 3]
        codes = [error and error["code"] for error in answer.column("error").to_pylist()]
        assert codes[0] is codes[3] is None and codes[1] == "invalid" and codes[2] not in (None, "invalid")


def test_a_text_is_found_with_the_matches() -> None:
    engine = mixed()
    path = TextPath("//a/@y | //a[2] | //x:none", (("x", "urn:x"),))
    xml = [MESSAGE, b"<m><a y='&lt;1'/></m>", b"<m/>", b"<m><a>1</a><a>2<b/><![CDATA[3]]>&#52;</a></m>", b"<m"]
    batch = pa.record_batch({"id": range(5), "xml": pa.array(xml, pa.binary())})
    for select in (False, True):
        before = _kernel.documents_built()
        (answer,) = engine.process_batches(batch, select=select, text=path)
        assert _kernel.documents_built() - before == 5
        assert answer.column("text").to_pylist() == [b"2", b"<1", None, b"234", None]
        expected = engine.select_batch(batch) if select else engine.match_batch(batch)
        assert answer.select(expected.schema.names).equals(expected)
    assert engine.process(MESSAGE, [], None, path).text == b"2"
    monkey = Engine()
    with pytest.raises(QueryError, match="selects no node"):
        monkey.process(MESSAGE, [], None, TextPath("count(//a)"))


def test_match_over_streams_reads_a_message_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Filters, residuals, transforms, correlations, the time and the schema."""
    (tmp_path / "m.dtd").write_text("<!ELEMENT m (k*)><!ATTLIST m t CDATA #REQUIRED><!ELEMENT k (#PCDATA)>")
    (tmp_path / "q.txt").write_text(
        "//k[. = 1]\n//k[count(../k) = 1]\n<r>{ for $k in /m/k return $k }</r>\n"
        "S//m->x[.//k->k] FOLLOWED BY{k = l, 1 h} S//n->y[.//k->l]\n"
    )
    for number in range(3):
        (tmp_path / f"{number}.xml").write_text(f'<m t="{9 - number}"><k>{number}</k></m>')
    files = [str(tmp_path / f"{number}.xml") for number in range(3)]
    options = ["--stream", "S", "--time", "/m/@t", "--schema", str(tmp_path / "m.dtd"), "--on-invalid", "reject"]
    before = _kernel.documents_built()
    with pytest.raises(SystemExit):
        cli(["match", "-s", str(tmp_path / "q.txt"), *options, *files])
    assert _kernel.documents_built() - before == 3
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(Path(one["message"]).name, one["subscription"]) for one in found] == [
        *(("2.xml", number) for number in (2, 3)),
        *(("1.xml", number) for number in (1, 2, 3)),
        *(("0.xml", number) for number in (2, 3)),
    ]


def test_match_over_streams_reads_messages_again_rather_than_hold_large_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = {"query": "//k", "result": "fragments"}
    (tmp_path / "q.jsonl").write_text("".join(json.dumps({**one, "id": id}) + "\n" for id in "ab"))
    for number in range(4):
        (tmp_path / f"{number}.xml").write_text(f'<m t="{9 - number}"><k>{"x" * 500}</k></m>')
    files = [str(tmp_path / f"{number}.xml") for number in range(4)]
    printed = []
    for held, readings in ((1 << 20, 4), (3_000, 4 + 2), (0, 4 + 4)):
        monkeypatch.setattr(correlate, "HELD", held)
        before = _kernel.documents_built()
        with pytest.raises(SystemExit):
            cli(["match", "-s", str(tmp_path / "q.jsonl"), "--time", "/m/@t", *files])
        assert _kernel.documents_built() - before == readings
        printed.append(capsys.readouterr().out)
    assert printed[0].count("xxx</k>") == 8 and set(printed) == {printed[0]}
