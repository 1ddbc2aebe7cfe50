"""Shared plans give what single plans give, whatever was added and removed before; and they do share."""

from __future__ import annotations

from random import Random

import pytest
from test_plan_answers import ids
from transform_queries import random_transform

from schema_support import schema_and_documents
from support import random_document
from twigcast.errors import QueryError
from twigcast.ir.transform import Transform
from twigcast.lang.flwr import parse_transform
from twigcast.papers.plans import Planner, reference
from twigcast.papers.plans.nodes import Message
from twigcast.papers.plans.reference import transformed
from twigcast.papers.plans.shared import SharedPlans
from twigcast.papers.transform_workload import TransformGenerator, TransformSettings
from twigcast.workload import vocabulary


def check(shared: SharedPlans, transforms: dict[int, Transform], documents: list[bytes]) -> int:
    results = 0
    for xml in documents:
        message = Message(xml)
        found = {query: ids(groups) for query, groups in shared.groups(message)}
        wanted = {query: ids(reference.groups(one, message)) for query, one in transforms.items()}
        assert found == {query: groups for query, groups in wanted.items() if groups}
        results += len(found)
    return results


@pytest.mark.parametrize("sharing", ["F", "FW", "FWR"])
def test_random_transforms(sharing: str) -> None:
    random = Random("shared")
    transforms: dict[int, Transform] = {}
    while len(transforms) < 150:
        try:
            transforms[len(transforms)] = parse_transform(random_transform(random))
        except QueryError:
            continue
    shared = SharedPlans()
    for query, transform in transforms.items():
        shared.add(query, Planner(sharing, "query").plan(transform))
    assert check(shared, transforms, [random_document(random) for _ in range(8)]) > 50


@pytest.mark.parametrize("name", ["bib", "book"])
def test_generated_transforms_come_and_go(name: str) -> None:
    schema, documents = schema_and_documents(name, 6)
    random = Random(f"shared {name}")
    planner = Planner("FWR", "query+schema", schema)
    transforms: dict[int, Transform] = {}
    shared = SharedPlans()
    numbers = iter(range(10_000))
    for paths in (1, 2, 3):
        settings = TransformSettings(binding_depth=3, predicate_paths=paths, max_value=3, seed=paths)
        for text in TransformGenerator(vocabulary(name), settings).queries(120):
            query = next(numbers)
            transforms[query] = parse_transform(text)
            shared.add(query, planner.plan(transforms[query]))
        for query in random.sample(sorted(transforms), 40):
            del transforms[query]
            shared.remove(query)
        assert check(shared, transforms, documents) > 0
    fresh = SharedPlans()
    for query, transform in transforms.items():
        fresh.add(query, planner.plan(transform))
    assert fresh.counts() == shared.counts()
    for query in list(transforms):
        shared.remove(query)
    assert set(shared.counts().values()) == {0}


def test_constants_share_a_join_and_equal_queries_everything() -> None:
    shared = SharedPlans()
    planner = Planner("FWR", "query")
    for n in range(50):
        text = f"<r>{{ for $v in //book where $v/title = '{n}' and $v/@y > {n} return <b>{{ $v/price }}</b> }}</r>"
        shared.add(n, planner.plan(parse_transform(text)))
    assert shared.counts() == {"queries": 50, "joins": 1, "outputs": 50, "group-bys": 1, "outer joins": 50}
    for n in range(50, 1050):
        text = "<r>{ for $w in //book where $w/@y > 7 and $w/title = '7' return <b>{ $w/price }</b> }</r>"
        shared.add(n, planner.plan(parse_transform(text)))
    assert shared.counts() == {"queries": 1050, "joins": 1, "outputs": 50, "group-bys": 1, "outer joins": 50}
    xml = b"<x><book y='8'><title>7</title><price>1</price></book><book y='9'><title>8</title></book></x>"
    made = dict(shared.transformed(Message(xml)))
    assert sorted(made) == [7, 8, *range(50, 1050)]
    assert len({id(one) for one in made.values()}) == 2
    assert made[8] == b"<r><b/></r>"


def test_rendered_as_the_reference_renders() -> None:
    schema, documents = schema_and_documents("book", 4)
    planner = Planner("FWR", "query+schema", schema)
    texts = list(TransformGenerator(vocabulary("book"), TransformSettings(binding_depth=3, max_value=3)).queries(150))
    shared = SharedPlans()
    for query, text in enumerate(texts):
        shared.add(query, planner.plan(parse_transform(text)))
    for xml in documents:
        made = dict(shared.transformed(Message(xml)))
        for query, text in enumerate(texts):
            assert made.get(query) == transformed(parse_transform(text), xml), text
