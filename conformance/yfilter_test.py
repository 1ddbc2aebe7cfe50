"""YFilter 1.0's release tests: five sets of queries, 100 documents, and the 27,795 matches its authors recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from twigcast import Engine, Subscription, papers
from twigcast.papers.engine import MODES
from twigcast.papers.predicates import PREDICATES

TESTS = Path(__file__).resolve().parents[2] / "shared" / "data" / "yfilter-nitf" / "tests"
SETS = ("test_simple_paths", "test_simple_predicates", "test_nested_paths", "test_extra_selects", "test_mixed_queries")

pytestmark = pytest.mark.skipif(not TESTS.is_dir(), reason="../shared/data/yfilter-nitf is absent")


def expected() -> dict[str, dict[str, list[int]]]:
    found: dict[str, dict[str, list[int]]] = json.loads((TESTS / "expected_matches.json").read_text())
    return found


def test_the_sets_are_whole() -> None:
    assert sorted(expected()) == sorted(SETS)
    assert sum(len(ids) for matches in expected().values() for ids in matches.values()) == 27_795


PLANS = [(mode, "shared") for mode in MODES] + [("trie", other) for other in PREDICATES if other != "shared"]


@pytest.mark.parametrize(("mode", "predicates"), PLANS)
@pytest.mark.parametrize("name", SETS)
def test_matches_agree_cold_and_warm(name: str, mode: str, predicates: str) -> None:
    ours = (mode, predicates) == ("trie", "shared")
    engine = Engine() if ours else papers.Engine(mode=mode, predicates=predicates)
    queries = (TESTS / name / "queries.txt").read_text().splitlines()
    engine.add_many(Subscription(number, query) for number, query in enumerate(queries, 1))
    documents = {path.name: path.read_bytes() for path in (TESTS / "xmldocs").glob("*.xml")}
    wanted = expected()[name]
    assert len(documents) == len(wanted) == 100
    for _ in range(2):
        assert {document: engine.match(xml) for document, xml in documents.items()} == wanted
