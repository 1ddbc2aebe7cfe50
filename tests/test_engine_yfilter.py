"""YFilter's own test of simple paths: 200 queries, 100 documents, and the matches its authors recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from twigcast import Engine, Subscription


@pytest.fixture(scope="module")
def queries(shared_data: Path) -> list[Subscription]:
    text = (shared_data / "yfilter-nitf/tests/test_simple_paths/queries.txt").read_text()
    return [Subscription(i, query.strip()) for i, query in enumerate(text.splitlines(), 1)]


@pytest.fixture(scope="module")
def documents(shared_data: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted((shared_data / "yfilter-nitf/tests/xmldocs").glob("*.xml"))}


@pytest.fixture(scope="module")
def expected(shared_data: Path) -> dict[str, list[int]]:
    text = (shared_data / "yfilter-nitf/tests/expected_matches.json").read_text()
    matches: dict[str, list[int]] = json.loads(text)["test_simple_paths"]
    assert len(matches) == 100
    return matches


def test_simple_paths_cold_and_warm(
    queries: list[Subscription], documents: dict[str, bytes], expected: dict[str, list[int]]
) -> None:
    engine = Engine()
    engine.add_many(queries)
    for _ in range(8):  # nodes of the trie are compiled at their sixth visit
        assert {name: engine.match(xml) for name, xml in documents.items()} == expected


def test_simple_paths_from_a_snapshot_in_batches(
    queries: list[Subscription], documents: dict[str, bytes], expected: dict[str, list[int]], tmp_path: Path
) -> None:
    engine = Engine()
    engine.add_many(queries)
    engine.save(tmp_path / "engine")
    opened = Engine.open(tmp_path / "engine")
    batch = pa.record_batch({"id": list(documents), "xml": list(documents.values())})
    for _ in range(8):
        result = opened.match_batch(batch)
        assert result.column("error").null_count == len(documents)
        found = {
            row["id"]: opened.ids.take(pa.array(row["matches"], pa.uint32())).to_pylist()
            for row in result.select(["id", "matches"]).to_pylist()
        }
        assert found == expected


def test_one_at_a_time_and_all_at_once_are_the_same(
    queries: list[Subscription], documents: dict[str, bytes], expected: dict[str, list[int]]
) -> None:
    """Subscriptions come while messages flow: each message sees those that came before it."""
    engine = Engine()
    pairs = list(documents.items())
    for i, s in enumerate(queries):
        engine.add(s.query, id=s.id)
        name, xml = pairs[i % len(pairs)]
        assert engine.match(xml) == [id for id in expected[name] if id <= s.id]
