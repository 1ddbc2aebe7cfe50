"""YFilter's five sets of release tests on an engine in a database."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from twigcast import Subscription
from twigcast.errors import QueryError
from twigcast.relational import RelationalEngine

SETS = ("test_simple_paths", "test_simple_predicates", "test_nested_paths", "test_extra_selects", "test_mixed_queries")
POSITIONS = {"test_simple_predicates": 10}


def check_set(engine: RelationalEngine, shared_data: Path, name: str) -> None:
    """All of its queries but those that ask for positions."""
    tests = shared_data / "yfilter-nitf" / "tests"
    taken, refused = [], set()
    for number, query in enumerate((tests / name / "queries.txt").read_text().splitlines(), 1):
        try:
            engine.check(Subscription(number, query))
            taken.append(Subscription(number, query))
        except QueryError:
            assert "position" in query or any(f"[{n}]" in query for n in range(10)), query
            refused.add(number)
    assert len(refused) == POSITIONS.get(name, 0)
    engine.add_many(taken)
    documents = {path.name: path.read_bytes() for path in (tests / "xmldocs").glob("*.xml")}
    batch = pa.record_batch({"id": list(documents), "xml": pa.array(list(documents.values()), pa.binary())})
    result = engine.match_batch(batch)
    found = dict(zip(result.column("id").to_pylist(), result.column("matches").to_pylist(), strict=True))
    wanted = json.loads((tests / "expected_matches.json").read_text())[name]
    assert found == {document: [n for n in ids if n not in refused] for document, ids in wanted.items()}
