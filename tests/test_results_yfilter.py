"""YFilter's release tests: what its authors extracted for every match, from all five sets of queries."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest
from lxml import etree

from twigcast import Engine, Subscription

SETS = {
    "tes": ("test_extra_selects", 139),
    "tsp": ("test_simple_paths", 5_963),
    "tspr": ("test_simple_predicates", 6_323),
    "tnp": ("test_nested_paths", 5_177),
    "tmq": ("test_mixed_queries", 10_193),
}


@pytest.fixture(scope="module")
def extracted(shared_data: Path) -> dict[str, dict[int, str]]:
    """By name of the file, such as tes/output1.txt: what each query found."""
    found = {}
    with tarfile.open(shared_data / "yfilter-nitf/tests/correct_unix.out.tgz") as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None:
                parts = re.split(r"^Q(\d+):\n", file.read().decode(), flags=re.MULTILINE)[1:]
                found[member.name.partition("correct.out/")[2]] = {
                    int(query): text for query, text in zip(parts[::2], parts[1::2], strict=True)
                }
    return found


def normal(content: bytes) -> str:
    """Without white space, and tags as in canonical XML."""
    data: bytes = etree.tostring(etree.fromstring(b"<w>" + content + b"</w>"), method="c14n")
    return re.sub(r"\s+", "", data.decode())


def as_yfilter(query: str, fragments: list[bytes]) -> bytes:
    """YFilter writes attributes with their names."""
    attribute = re.search(r"/@([\w.-]+)$", query)
    if attribute:
        fragments = [attribute[1].encode() + b'="' + value + b'"' for value in fragments]
    return b"".join(fragments)


@pytest.mark.parametrize("set_name", SETS)
def test_extracted_content(set_name: str, shared_data: Path, extracted: dict[str, dict[int, str]]) -> None:
    folder, matches = SETS[set_name]
    tests = shared_data / "yfilter-nitf/tests"
    queries = [line.strip() for line in (tests / folder / "queries.txt").read_text().splitlines()]
    engine = Engine()
    engine.add_many(Subscription(i, query, result="fragments") for i, query in enumerate(queries, 1) if query)
    compared = 0
    for n, document in enumerate(sorted((tests / "xmldocs").glob("*.xml"), key=lambda path: path.name), 1):
        expected = extracted[f"{set_name}/output{n}.txt"]
        found = {one.id: one.fragments for one in engine.select(document.read_bytes())}
        assert set(found) == set(expected)
        for id, content in expected.items():
            ours = as_yfilter(queries[id - 1], found[id] or [])
            assert normal(ours) == normal(content.encode()), (document.name, queries[id - 1])
        compared += len(expected)
    assert compared == matches
