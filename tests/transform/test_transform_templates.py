"""A known shape of transform is registered without parsing, and means what parsing it would mean."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from time import thread_time
from typing import Any

import pytest
from transform_queries import random_transform

from flwr_paper import QUERIES
from support import random_document
from twigcast import _kernel
from twigcast.engine import Engine, Subscription
from twigcast.engine import compiler as compiler_module
from twigcast.errors import QueryError
from twigcast.ir.transform import Transform
from twigcast.lang.flwr import parse_transform
from twigcast.lang.literals import LITERAL
from twigcast.lang.shape import Scope, scope_of
from twigcast.plan.encode import StepCodes
from twigcast.transform.encode import Encoded, compiled, condition
from twigcast.transform.templates import Templates

SCOPE = scope_of({}, None)


class Parser:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, text: str, scope: Scope) -> Transform:
        self.count += 1
        return parse_transform(text, dict(scope[0]), scope[1] or None)


class Kernel:
    """Transforms in the kernel, two at a time."""

    def __init__(self) -> None:
        self._engine = _kernel.Engine()
        self._codes = StepCodes(self._engine)

    def encoded(self, transform: Transform) -> Encoded:
        return compiled(transform, self._codes)

    def payloads(self, pair: tuple[Encoded, Encoded], documents: list[bytes]) -> list[list[bytes | None]]:
        """Return what both make of each document."""
        numbers = self._engine.reserve(2)
        for number, one in zip(numbers, pair, strict=True):
            if one.query is None:
                self._engine.add_transform(number, one.program, one.constants, one.making, False)
            else:
                self._engine.add_residual_transform(number, one.query[:2], one.making, False)
        made = [[one[4] for one in self._engine.process_one(xml, [], True)[0]] for xml in documents]
        for number in numbers:
            self._engine.remove(number)
        return made


def templates() -> tuple[Templates[Transform, Encoded], Parser, Kernel]:
    parser, kernel = Parser(), Kernel()
    return Templates(parser, kernel.encoded, condition), parser, kernel


def others(random: Random, text: str) -> str:
    """The same text with some other literals of the same kinds; no two alike, for equal terms become one."""
    parts = LITERAL.split(text)
    for i in range(1, len(parts), 2):
        if random.random() < 0.5:
            continue
        if parts[i][0] in "\"'":
            value = random.choice(["a", "b c", "", "&lt;", "x" * 9, "{", "}}", "é", "1", "(:", "</r>"])
            parts[i] = parts[i][0] + value + str(i) * bool(value) + parts[i][0]
        else:
            parts[i] = random.choice(["0", "1", "2", f"{i}7", f"{i}.5", "0.0", f"{i}000000"])
    return "".join(parts)


QUOTED = (
    "<r a='1' b=\"2\">it's { for $v in //a where $v = 'x' return <b c='{ $v/@d }'>isn't</b> }</r>",
    '<r>{ for $v in //a[@x = \'say ""\'] where $v/b = "it\'s" return (\'x\', $v/c[2], "y") }</r>',
    "<r>{ for $v in //a where contains($v/b, 'x') and $v/c != -5 or count($v/d) > 2 return $v }</r>",
    "<r>{ for $v in //a[b = 'x'][2] where starts-with($v, 'x') return $v/c[@d < 3] }</r>",
    "<r>{ for $v in //a where string-length($v) >= 2 and string($v/b) = 'x' return $v }</r>",
    "<r>{ for $v in //a where $v/b = 'x' or $v/b = 'y' or $v/b = 'x' order by $v/c return $v }</r>",
)


def test_other_constants_mean_what_parsing_says() -> None:
    random = Random("templates")
    known, parser, kernel = templates()
    count = 400 if os.environ.get("TWIGCAST_RANDOM_TESTS") else 25
    looked_up = 0
    documents = [random_document(random) for _ in range(30)]
    for first in [*QUERIES, *QUOTED, *(random_transform(random) for _ in range(count))]:
        for text in [first, *(others(random, first) for _ in range(12))]:
            try:
                wanted = Templates(Parser(), kernel.encoded, condition).prepare(text, SCOPE)
            except QueryError as error:
                with pytest.raises(QueryError) as raised:
                    known.prepare(text, SCOPE)
                assert str(raised.value) == str(error)
                continue
            before = parser.count
            found = known.prepare(text, SCOPE)
            if found != wanted:  # terms of a condition may come in another order
                for made in kernel.payloads((found, wanted), documents):
                    assert len(made) in (0, 2) and len(set(made)) <= 1, text
            looked_up += parser.count == before
    assert looked_up > 40


def test_a_known_shape_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    query = '<r x="1">{{ for $v in //a[@id = "{}"] where $v/b > {} return <c n="2">{{ $v/d }}</c> }}</r>'
    engine.add_many(Subscription(i, query.format(i, i)) for i in range(2))
    parsed = []
    monkeypatch.setattr(compiler_module, "parse_transform", lambda *a: parsed.append(a))
    engine.add_many(Subscription(i, query.format(i, i)) for i in range(2, 5000))
    assert not parsed
    (one,) = engine.select(b"<a id='7'><b>8</b><d/></a>")
    assert (one.id, one.payload) == (7, b'<r x="1"><c n="2"><d/></c></r>')


def test_what_the_shape_depends_on() -> None:
    known, parser, _ = templates()
    query = "<r>{ for $v in //a[2] where $v/p:b = 'x' return $v }</r>"
    for uri in ("u", "v"):
        for _ in range(3):
            known.prepare(query, scope_of({"p": uri}, None))
    assert len(known) == 2
    before = parser.count
    one, other = (known.prepare(query, scope_of({"p": uri}, None)) for uri in ("u", "v"))
    assert one.program != other.program
    assert parser.count == before
    # a position is no constant, and neither is what is put out
    made = known.prepare(query.replace("[2]", "[3]"), scope_of({"p": "u"}, None))
    assert made.program != one.program


@pytest.mark.parametrize("seed", range(2))
def test_a_snapshot_opens_without_parsing(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(f"snapshots of transforms {seed}")
    engine = Engine(namespaces={"p": "urn:p"})
    while len(engine) < 60:
        query = random_transform(random)
        for text in (query, *(others(random, query) for _ in range(3))):
            try:
                engine.add(text, deliver_empty=random.random() < 0.2)
            except QueryError:
                break
    engine.add("//a", id="filter")
    for id in (3, 9, 20):
        engine.remove(id)
    engine.save(tmp_path / "saved")
    documents = [random_document(random) for _ in range(15)]
    wanted = [engine.select(xml) for xml in documents]

    def refuse(*args: Any, **kwargs: Any) -> Transform:
        # what libxml2 evaluates is parsed when a message comes, what the kernel has is not
        transform = parse_transform(*args, **kwargs)
        assert not transform.is_pattern
        return transform

    monkeypatch.setattr(compiler_module, "parse_transform", refuse)
    opened = Engine.open(tmp_path / "saved")
    assert [opened.select(xml) for xml in documents] == wanted
    # and it saves again, from what it has
    opened.save(tmp_path / "again")
    third = Engine.open(tmp_path / "again")
    assert [third.select(xml) for xml in documents] == wanted
    monkeypatch.undo()
    third.add("<r>{ for $v in /* return <n>{ count($v//*) }</n> }</r>", id="new")
    assert {s.id for s in third.select(b"<a/>")} >= {"new", "filter"}


def test_registering_a_known_shape_takes_microseconds() -> None:
    engine = Engine()
    query = '<r>{{ for $v in //a[@id = "{}"] where $v/b > {} return <c>{{ $v/d }}</c> }}</r>'
    engine.add_many(Subscription(i, query.format(i, i)) for i in range(2))
    began = thread_time()
    engine.add_many(Subscription(i, query.format(i, i)) for i in range(2, 4002))
    assert thread_time() - began < 4000 / 5000  # far more than 5,000 a second, on a machine that is busy
