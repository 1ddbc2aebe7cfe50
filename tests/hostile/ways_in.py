"""The table of ways in: everything that takes messages from outside. A new way in is a new row.

Each takes all messages together, hostile ones and good neighbours, and answers for each what it matched or why it was
refused. What else a way in says or writes goes into ``said``: no secret may be in there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from twigcast import Broker, Engine, MessageError, Subscription, papers
from twigcast.chunk.prepare import prepare
from twigcast.chunk.run import Options
from twigcast.chunk.run import match as match_in_parts
from twigcast.delivery.held import digest
from twigcast.delivery.single import Waiting
from twigcast.explain.whynot import Probe
from twigcast.schema import Schema, dtd_schema, xsd_schema

SUBSCRIPTIONS = (
    Subscription("all", "//a"),
    Subscription("value", '//a[b = "1"]'),
    Subscription("residual", "string-length(name(/*)) = 1"),
    Subscription("fragments", "//b", result="fragments"),
    Subscription("transform", "<r>{ for $v in //a return <e>{ $v }</e> }</r>"),
    Subscription("slow transform", "<r>{ for $v in //a where $v/b[last()] return <e>{ string($v) }</e> }</r>"),
)
IDS = {s.id for s in SUBSCRIPTIONS}
JOIN = "S/a->x[b->k] JOIN{k = l, 1 h} S/a->y[b->l]"
"""A correlation that joins messages with equal values of ``b``."""

DTD = b"<!ELEMENT a (#PCDATA|b)*><!ELEMENT b (#PCDATA|b)*><!ATTLIST a x CDATA #IMPLIED>"
XSD = b"""<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
  <xs:element name="a"><xs:complexType mixed="true"><xs:sequence>
    <xs:element ref="b" minOccurs="0" maxOccurs="unbounded"/></xs:sequence>
    <xs:attribute name="x"/></xs:complexType></xs:element>
  <xs:element name="b"><xs:complexType mixed="true"><xs:sequence>
    <xs:element ref="b" minOccurs="0" maxOccurs="unbounded"/></xs:sequence></xs:complexType></xs:element>
</xs:schema>"""


@dataclass
class Answer:
    """What became of one message."""

    matches: set[Any] = field(default_factory=set)
    error: str | None = None
    text: str = ""
    said: str = ""
    """Everything that comes out: payloads, fragments, errors."""


Messages = dict[str, bytes]
Answers = dict[str, Answer]


@dataclass(frozen=True)
class Way:
    """``run`` gets an empty folder and messages. ``ids`` are the subscriptions that a good message matches. With
    ``schema``, a message may be refused as invalid."""

    name: str
    run: Callable[[Path, Messages], Answers]
    ids: frozenset[Any] = frozenset(IDS)
    schema: bool = False


def refused(error: MessageError) -> Answer:
    return Answer(error=error.code, text=error.text, said=str(error))


def engine_of(**options: Any) -> Engine:
    engine = Engine(**options)
    engine.add_many(SUBSCRIPTIONS)
    return engine


def batch_of(messages: Messages) -> pa.RecordBatch:
    return pa.record_batch({"id": list(messages), "xml": pa.array(messages.values(), pa.binary())})


# -- one process


def through_broker(folder: Path, messages: Messages, **options: Any) -> Answers:
    broker = Broker(**options)
    relational = options.get("engine") == "relational"
    for s in SUBSCRIPTIONS[:2] if relational else SUBSCRIPTIONS:
        broker.subscribe(s.query, id=s.id, result=s.result)
    return {name: _published(broker, xml) for name, xml in messages.items()}


def _published(broker: Broker, xml: bytes, **options: Any) -> Answer:
    failures: list[Any] = []
    try:
        found = broker.publish(xml, failures=failures, **options)
    except MessageError as error:
        return refused(error)
    return Answer({one.subscription for one in found}, said=f"{found} {failures}")


def through_match(folder: Path, messages: Messages, **options: Any) -> Answers:
    engine = engine_of(**options)
    found = {}
    for name, xml in messages.items():
        try:
            found[name] = Answer(set(engine.match(xml)))
        except MessageError as error:
            found[name] = refused(error)
    return found


def through_batches(folder: Path, messages: Messages, select: bool = False, **options: Any) -> Answers:
    engine = engine_of(**options)
    ask = engine.select_batches if select else engine.match_batches
    found = {}
    for part in ask(batch_of(messages)):
        for row in part.to_pylist():
            error = row["error"]
            numbers = [one["subscription"] for one in row["matches"]] if select else row["matches"]
            found[row["id"]] = Answer(
                {engine.ids[number].as_py() for number in numbers},
                error and error["code"],
                error["text"] if error else "",
                str(row),
            )
    return found


def through_probe(folder: Path, messages: Messages) -> Answers:
    probes = {s.id: Probe(s.query) for s in SUBSCRIPTIONS[:3]}
    found: Answers = {}
    for name, xml in messages.items():
        answer = found[name] = Answer()
        for id, probe in probes.items():
            try:
                verdict = probe.test(xml)
            except MessageError as error:
                found[name] = refused(error)
                break
            answer.said += str(verdict)
            answer.matches |= {id} if verdict.matches else set()
    return found


def through_correlations(folder: Path, messages: Messages, strategy: str) -> Answers:
    """Neighbours join each other: good-2 is the later one."""
    broker = papers.Broker(strategy=strategy)
    broker.subscribe(JOIN, id="join")
    found = {}
    for time, (name, xml) in enumerate(messages.items()):
        found[name] = _published(broker, xml, id=name, time=time, stream="S")
    found["good-1"].matches |= {"join"} & found["good-2"].matches
    return found


def through_chunks(folder: Path, messages: Messages) -> Answers:
    scheme = prepare(SUBSCRIPTIONS[:4], chunks=2)
    found = {}
    for name, xml in messages.items():
        report = match_in_parts(lambda xml=xml: [xml], lambda _: scheme, Options())
        error = report.error
        found[name] = Answer(
            {one.id for one in report.answers} if error is None else set(),
            error and error.code,
            error.text if error else "",
            str(report),
        )
    return found


def through_digest(folder: Path, messages: Messages) -> Answers:
    """A digest takes what has been accepted; here it is given everything."""
    found = {}
    for name, xml in messages.items():
        waiting = Waiting(1, "d", "in", name, None, {}, "all", "ann", xml)
        found[name] = Answer({"all"}, said=digest([waiting]).content.decode())
    return found


# -- the program


def through_program(folder: Path, messages: Messages, schema: tuple[str, bytes] | None = None) -> Answers:
    options = []
    if schema is not None:
        (folder / schema[0]).write_bytes(schema[1])
        options = ["--schema", str(folder / schema[0]), "--on-invalid", "reject"]
    inbox, subscriptions = folder / "in", folder / "subscriptions.jsonl"
    inbox.mkdir()
    for name, xml in messages.items():
        (inbox / f"{name}.xml").write_bytes(xml)
    rows = [{"id": s.id, "query": s.query, "result": s.result} for s in SUBSCRIPTIONS]
    subscriptions.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    command = [sys.executable, "-m", "twigcast.cli", "match", "-s", str(subscriptions), *options, str(inbox)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 2, run.stderr
    assert "Traceback" not in run.stderr
    found: Answers = {name: Answer() for name in messages}
    for line in run.stdout.splitlines():
        row = json.loads(line)
        found[Path(row["message"]).stem].matches.add(row["subscription"])
    for line in run.stderr.splitlines():
        name, _, rest = line.partition(".xml:")
        answer = found.get(Path(name).name)
        if answer is not None and answer.error is None:
            _, _, code, text = rest.split(":", 3)
            answer.error, answer.text = code.strip(), text
    found["good-1"].said = run.stdout + run.stderr
    return found


def through_validate(folder: Path, messages: Messages) -> Answers:
    """A message that is well-formed counts as a match of ``all``."""
    inbox = folder / "in"
    inbox.mkdir()
    for name, xml in messages.items():
        (inbox / f"{name}.xml").write_bytes(xml)
    command = [sys.executable, "-m", "twigcast.cli", "validate", str(inbox)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 2, run.stderr
    assert "Traceback" not in run.stderr
    found = {}
    for line in run.stdout.splitlines():
        row = json.loads(line)
        error = row["error"] or {"code": None, "text": ""}
        found[Path(row["message"]).stem] = Answer({"all"} if row["ok"] else set(), error["code"], error["text"], line)
    found["good-1"].said += run.stderr
    return found


def schemas() -> Iterator[tuple[str, Schema]]:
    yield "dtd", dtd_schema(DTD)
    yield "xsd", xsd_schema(XSD)


WAYS = (
    Way("broker", through_broker),
    *(
        Way(f"broker {kind} {rule}", partial(through_broker, schema=schema, on_invalid=rule), schema=rule == "reject")
        for kind, schema in schemas()
        for rule in ("reject", "fallback")
    ),
    Way("match", through_match),
    Way("match_batches", through_batches),
    Way("select_batches", partial(through_batches, select=True)),
    *(
        Way(f"{way} {kind}", partial(run, schema=schema, on_invalid="reject", **more), schema=True)
        for kind, schema in schemas()
        for way, run, more in (
            ("match", through_match, {}),
            ("match_batches", through_batches, {}),
            ("select_batches", through_batches, {"select": True}),
        )
    ),
    Way("relational", partial(through_broker, engine="relational"), ids=frozenset({"all", "value"})),
    Way("probe", through_probe, ids=frozenset({"all", "value", "residual"})),
    *(
        Way(f"correlations {strategy}", partial(through_correlations, strategy=strategy), ids=frozenset({"join"}))
        for strategy in ("default", "mmqjp", "sequential")
    ),
    Way("chunks", through_chunks, ids=frozenset(s.id for s in SUBSCRIPTIONS[:4])),
    Way("digest", through_digest, ids=frozenset({"all"})),
    Way("program", through_program),
    Way("validate", through_validate, ids=frozenset({"all"})),
    *(
        Way(f"program {kind}", partial(through_program, schema=(f"a.{kind}", text)), schema=True)
        for kind, text in (("dtd", DTD), ("xsd", XSD))
    ),
)
