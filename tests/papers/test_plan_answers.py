"""Every combination of sharing, optimisation and rules gives the reference's answer.

The executor's merge and scan forms count on what the claims promise: an unsound claim shows here.
"""

from __future__ import annotations

from random import Random

import pytest
from transform_queries import random_transform

from schema_support import NAMES, schema_and_documents
from support import random_document
from twigcast.errors import QueryError
from twigcast.ir.transform import Transform
from twigcast.lang.flwr import parse_transform
from twigcast.papers.plans import LEVELS, SHARING, Planner, Streams, execute, profile, reference
from twigcast.papers.plans.nodes import Message
from twigcast.papers.plans.render import Group
from twigcast.papers.plans.rules import RULES
from twigcast.schema import Schema


def ids(groups: list[Group]) -> list[tuple[int, dict[str, list[int]]]]:
    return [(one.node.id, {path.text: [n.id for n in found] for path, found in one.lists.items()}) for one in groups]


def check(planners: list[Planner], transform: Transform, streams: list[Streams]) -> None:
    wanted = [ids(reference.groups(transform, one.message)) for one in streams]
    for planner in planners:
        plan = planner.plan(transform)
        for stream, answer in zip(streams, wanted, strict=True):
            assert ids(execute(plan, stream)) == answer, (transform.binding.text, plan)


def combinations(schema: Schema | None) -> list[Planner]:
    made = [Planner(sharing, level, schema) for sharing in SHARING for level in LEVELS]
    return made + [Planner("FWR", "query+schema", schema, off=(rule.name,)) for rule in RULES]


@pytest.mark.parametrize("seed", range(4))
def test_random_transforms_without_a_schema(seed: int) -> None:
    random = Random(f"plans {seed}")
    planners = combinations(None)
    made = 0
    while made < 50:
        try:
            transform = parse_transform(random_transform(random))
        except QueryError:
            continue
        made += 1
        check(planners, transform, [Streams(Message(random_document(random))) for _ in range(4)])


@pytest.mark.parametrize("name", NAMES)
def test_generated_transforms_on_valid_documents(name: str) -> None:
    schema, documents = schema_and_documents(name, 8)
    streams = [Streams(Message(one)) for one in documents]
    planners = combinations(schema)
    random = Random(f"plans {name}")
    names = sorted({one.local or "" for one in schema.graph.declarations})

    def path(most: int) -> str:
        steps = [
            random.choice(("/", "//", "//")) + (random.choice(names) if random.random() < 0.85 else "*")
            for _ in range(random.randint(1, most))
        ]
        return "".join(steps)

    def branch() -> str:
        return path(2) if random.random() < 0.8 else path(1) + random.choice(("/@x", "//@x", "/text()", "//text()"))

    matched, transforms = 0, []
    for _ in range(250):
        start = path(3)
        filters = random.choice(("", "", "", "[@x = '1']", f"[.{path(1)}]", "[1]", "[last()]"))
        where = random.choice(("", f"where $v{branch()}", f"where $v{branch()} = '1'", f"where not($v{branch()})"))
        # the one that may end with an attribute comes first
        result = f"<e>{{ $v{branch()} }}{{ $v{path(2)} }}</e>"
        transform = parse_transform(f"<r>{{ for $v in {start}{filters} {where} return {result} }}</r>")
        transforms.append(transform)
        matched += any(reference.groups(transform, one.message) for one in streams)
        check(planners, transform, streams)
    assert matched > 20
    if name in ("book", "uneven"):
        counts = profile(Planner("FWR", "query+schema", schema).plan(one) for one in transforms)
        assert counts["outer join merge"] > 10
        assert counts["outer join hash"] > 10
