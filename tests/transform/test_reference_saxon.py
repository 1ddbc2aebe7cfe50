"""The reference evaluator against Saxon, on random transforms and documents."""

from __future__ import annotations

from random import Random

import pytest
from saxon import SaxonError, saxon
from transform_queries import random_transform

from canonical_xml import canonical
from support import random_document
from twigcast.errors import QueryError
from twigcast.lang.flwr import parse_transform
from twigcast.papers.plans.reference import transformed
from twigcast.papers.transform_workload import TransformGenerator, TransformSettings
from twigcast.workload import DocumentGenerator, vocabulary

# XQuery raises what a broker must not (SEMANTICS 5): a second attribute of one name in one element.
RUN_TIME = ("XQDY0025",)


def check(queries: list[str], documents: list[bytes]) -> int:
    compared = 0
    for text in queries:
        transform = parse_transform(text)
        for xml in documents:
            ours = transformed(transform, xml, deliver_empty=True)
            assert ours is not None
            assert ours == transformed(transform, xml, deliver_empty=True, patterns=False), (text, xml.decode())
            try:
                theirs = saxon(transform, xml)
            except SaxonError as error:
                assert any(code in str(error) for code in RUN_TIME), (text, xml, str(error))
                continue
            assert canonical(ours) == theirs, (text, xml.decode())
            compared += 1
    return compared


@pytest.mark.parametrize("seed", range(8))
def test_random_transforms(seed: int) -> None:
    random = Random(f"transforms {seed}")
    made = compared = 0
    while made < 60:
        try:
            query = random_transform(random)
            parse_transform(query)
        except QueryError as error:
            assert error.code in ("late-attribute",), (query, error)
            continue
        made += 1
        compared += check([query], [random_document(random) for _ in range(3)])
    assert compared > 100


@pytest.mark.parametrize(("name", "depth"), [("bib", 4), ("book", 6)])
def test_generated_transforms(name: str, depth: int) -> None:
    dtd = vocabulary(name)
    settings = TransformSettings(binding_depth=3, predicate_paths=1, return_paths=2, descendant=0.4, max_value=3)
    documents = list(DocumentGenerator(dtd, depth=depth, max_value=3, seed=5).documents(3))
    assert check(list(TransformGenerator(dtd, settings).queries(60)), documents) == 180
