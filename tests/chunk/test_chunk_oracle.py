"""Chunked results are unchunked results, whatever the document, the schema, the queries, the degree and the engine."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from chunk_random import NAMES, NAMESPACES, Queries, document, schema, subscriptions
from chunk_reference import allowed, match, merged, pieces
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from twigcast import Engine, Limits, _kernel
from twigcast.chunk.pieces import Compiled
from twigcast.chunk.prepare import BESIDE, prepare
from twigcast.chunk.scheme import Scheme
from twigcast.engine import Failure
from twigcast.engine.results import Selected
from twigcast.papers.chunk_lxml import fragments

SEEDS = st.integers(0, 2**32)
DEGREES = (0, 1, 3, 8)


def canonical(found: Iterable[Selected], untried: Iterable[Failure] = ()) -> list[tuple[Any, ...]]:
    """The reference writes its fragments anew, so that XML is compared and not bytes. What would take libxml2 too long
    with the whole document (``untried``) need not with fragments of it."""
    without = {one.id for one in untried}
    return [
        (one.id, one.nodes, one.fragments and [_c14n(xml) for xml in one.fragments], one.complete, one.payload)
        for one in found
        if one.id not in without
    ]


def _c14n(xml: bytes) -> bytes:
    return bytes(etree.tostring(etree.fromstring(b"<w>" + xml + b"</w>"), method="c14n"))


def check(scheme: Scheme, xml: bytes, whole: Engine, random: Random) -> None:
    """By the plain chunker and by the kernel's; libxml2 says whether a subscription matches, not what it selects."""
    untried: list[Failure] = []
    wanted = canonical(whole.select(xml, failures=untried))
    batch = random.choice([None, 1, 2])
    made = list(fragments(scheme, xml, batch_bytes=random.choice([None, 1, 50])))
    assert canonical(match(scheme, xml, batch=batch), untried) == wanted, (batch, xml)
    assert canonical(merged(scheme, made), untried) == wanted, xml
    ids = [one[0] for one in canonical(merged(scheme, made, "lxml"), untried)]
    assert ids == [one[0] for one in wanted], xml


def check_without_schema(seed: int, *, steady: bool, count: int = 12) -> None:
    random = Random(seed)
    subscribed = subscriptions(Queries(random, NAMES, "a", steady=steady), count)
    whole = Engine(namespaces=NAMESPACES)
    whole.add_many(subscribed)
    beside = random.choice(BESIDE)
    scheme = prepare(subscribed, chunks=random.choice(DEGREES), namespaces=NAMESPACES, beside=beside)
    for _ in range(2):
        xml = document(random)
        check(scheme, xml, whole, random)


def check_with_schema(seed: int, *, count: int = 12) -> None:
    random = Random(seed)
    publisher, names, documents = schema(random)
    subscribed = subscriptions(Queries(random, names[1:], "r", steady=random.random() < 0.8), count)
    whole = Engine(namespaces=NAMESPACES)
    whole.add_many(subscribed)
    beside = random.choice(BESIDE)
    chunks = random.choice(DEGREES)
    scheme = prepare(subscribed, chunks=chunks, schema=publisher, namespaces=NAMESPACES, beside=beside)
    for xml in documents[:2]:
        assert allowed(scheme, xml)
        check(scheme, xml, whole, random)


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_without_a_schema(seed: int) -> None:
    check_without_schema(seed, steady=True)


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_queries_that_take_the_whole_document_among_them(seed: int) -> None:
    check_without_schema(seed, steady=False)


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_with_a_schema(seed: int) -> None:
    check_with_schema(seed)


def check_pieces(seed: int) -> None:
    random = Random(seed)
    subscribed = subscriptions(Queries(random, NAMES, "a", steady=True), 12, results=False)
    scheme = prepare(subscribed, chunks=0, namespaces=NAMESPACES)
    groups = [one for one in scheme.potpourri.groups if one.shape.unit is not None]
    engine = Engine()
    engine.add_many(one for group in groups for one in group.subscriptions)
    xml = document(random)
    units = [unit for group in groups for unit in group.shape.unit or ()]
    found = {id for piece in pieces(units, xml, random) for id in engine.match(piece)}
    assert sorted(found) == engine.match(xml), xml


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_piece_by_piece(seed: int) -> None:
    check_pieces(seed)


def check_units(seed: int) -> None:
    """Unit by unit as the kernel does it, lightly and not: documents with and without a prolog, and again and again."""
    random = Random(seed)
    subscribed = subscriptions(Queries(random, NAMES, "a", steady=True), 12, results=False)
    scheme = prepare(subscribed, chunks=0, namespaces=NAMESPACES)
    made = Compiled(scheme, Limits())
    units = _kernel.Units(made.kernel(), made.units)
    for _ in range(4):
        xml = document(random)
        for text in (xml, b"<?xml version='1.0'?>" + xml):
            untried: list[Any] = []
            numbers, error = made.engine.match_units(pa.array([text], pa.large_binary()), units, 0, untried)
            assert error is None
            failures: list[Failure] = []
            found = {made.expressions[n] for n in numbers}
            whole = set(made.engine.match(text, failures=failures))
            undecided = {one.id for one in failures} | {made.expressions[n] for n, _ in untried}
            assert found - undecided == whole - undecided, text


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_unit_by_unit(seed: int) -> None:
    check_units(seed)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(SEEDS, st.booleans())
def test_many(seed: int, with_schema: bool) -> None:
    check_pieces(seed)
    check_units(seed)
    if with_schema:
        check_with_schema(seed)
    else:
        check_without_schema(seed, steady=seed % 4 > 0)
