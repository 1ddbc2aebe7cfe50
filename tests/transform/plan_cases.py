"""One set of cases for all ways to evaluate transforms, with Saxon's answers: queries, documents, and their schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from lxml import etree
from saxon import SaxonError, saxon_answers
from transform_queries import random_transform

from canonical_xml import canonical
from flwr_paper import QUERY_1, QUERY_2, QUERY_3
from schema_support import schema_and_documents
from support import random_document
from twigcast.engine import Subscription
from twigcast.errors import QueryError
from twigcast.lang.flwr import parse_transform
from twigcast.papers import Engine
from twigcast.papers.options import OPTIMIZE
from twigcast.papers.plans import SHARING
from twigcast.papers.plans.reference import transformed
from twigcast.papers.transform_workload import TransformGenerator, TransformSettings
from twigcast.schema import Schema
from twigcast.workload import vocabulary

COMBINATIONS: list[dict[str, Any]] = [
    {"sharing": sharing, "optimize": optimize, "share_plans": share}
    for sharing, optimize, share in product(SHARING, OPTIMIZE, (True, False))
]
# XQuery raises what a broker must not (SEMANTICS 5): a second attribute of one name in one element, no number.
RUN_TIME = ("XQDY0025", "FORG0001")


@dataclass(frozen=True)
class Case:
    name: str
    queries: list[str]
    documents: list[bytes]
    schema: Schema | None = None


def paper(documents: int) -> Case:
    schema, found = schema_and_documents("book", documents, seed=3)
    # values of generated documents are small numbers, their ids are not
    queries = [
        one.replace('"XML processing"', '"1"').replace('"XML"', '"2"').replace("@id", "@difficulty")
        for one in (QUERY_1, QUERY_2, QUERY_3)
    ]
    return Case("paper", [QUERY_1, QUERY_2, QUERY_3, *queries], [*found, FIGURES], schema)


FIGURES = (
    b"<book><title>t</title><author/><section><title>XML</title><section id='s2'><title>XML</title>"
    b"<figure width='1' height='1'><title>XML processing</title><image source='a'/></figure></section>"
    b"<figure width='1' height='1'><title>XML processing</title><image source='b'/></figure></section></book>"
)


def generated(name: str, queries: int, documents: int, seed: int = 0) -> Case:
    """Over Bib or the recursive Book, with up to three predicate paths."""
    schema, found = schema_and_documents(name, documents, seed)
    texts: list[str] = []
    for paths, deep in ((0, 0.4), (1, 0.2), (1, 0.6), (2, 0.4), (3, 0.4)):
        settings = TransformSettings(
            binding_depth=3, predicate_paths=paths, return_paths=2, descendant=deep, max_value=3, seed=seed
        )
        texts += TransformGenerator(vocabulary(name), settings).queries(queries // 5)
    return Case(name, texts, found, schema)


def mixed(queries: int, documents: int, seed: int = 0) -> Case:
    """Namespaces, attributes, mixed content, comments, positions, functions, order."""
    random = Random(f"mixed {seed}")
    found: list[str] = []
    while len(found) < queries:
        text = random_transform(random)
        try:
            parse_transform(text)
        except QueryError:
            continue
        found.append(text)
    return Case("mixed", found, [random_document(random) for _ in range(documents)])


NS = {"q": "http://www.w3.org/2010/09/qt-fots-catalog"}


def usecases(data: Path) -> list[tuple[str, str, Path]]:
    """Name, query and document of each of the W3C's use cases that asks one document."""
    found = []
    for suite in ("XMP", "TREE", "NS", "SEQ", "SGML", "STRING", "R", "PARTS"):
        tree = etree.parse(data / "app" / f"UseCase{suite}.xml")
        sources = {env.get("name"): env.findall("q:source", NS) for env in tree.iterfind("q:environment", NS)}
        for case in tree.iterfind("q:test-case", NS):
            environment = case.find("q:environment", NS)
            files = sources.get(environment.get("ref"), []) if environment is not None else []
            if len(files) == 1 and files[0].get("role") == ".":
                path = data / "app" / files[0].get("file")
                found.append((case.get("name"), case.findtext("q:test", namespaces=NS), path))
    return found


def accepted_usecases(data: Path) -> Iterator[Case]:
    for name, query, path in usecases(data):
        try:
            parse_transform(query)
        except QueryError:
            continue
        yield Case(name, [query], [etree.tostring(etree.parse(path))])


def check(case: Case, combinations: list[dict[str, Any]]) -> tuple[int, int]:
    """Every combination gives what Saxon gives; how many pairs of query and document that was, and how many of them
    have a result."""
    wanted: list[dict[int, bytes]] = [{} for _ in case.documents]
    pairs = 0
    for i, text in enumerate(case.queries):
        transform = parse_transform(text)
        for j, answer in enumerate(saxon_answers(transform, case.documents)):
            xml = case.documents[j]
            ours = transformed(transform, xml)
            if isinstance(answer, SaxonError):
                assert any(code in str(answer) for code in RUN_TIME), (text, xml, str(answer))
            else:
                pairs += 1
                same = ours if ours is not None else transformed(transform, xml, deliver_empty=True)
                assert same is not None
                assert canonical(same) == answer, (text, xml)
            if ours is not None:
                wanted[j][i] = canonical(ours)
    for options in combinations:
        engine = Engine(schema=case.schema, on_invalid="trust", **options)
        engine.add_many(Subscription(i, text) for i, text in enumerate(case.queries))
        for xml, answers in zip(case.documents, wanted, strict=True):
            found = {one.id: canonical(one.payload or b"<cut/>") for one in engine.select(xml)}
            for i in {*found, *answers}:
                assert found.get(i) == answers.get(i), (options, case.queries[int(i)], xml)
    return pairs, sum(map(len, wanted))
