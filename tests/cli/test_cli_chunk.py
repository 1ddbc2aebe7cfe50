"""twigcast chunk: what comes out is what twigcast match says of the same file."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from twigcast.cli import large

RECORDS = b"".join(b'<s id="%d"><n>x%d</n></s><p><n>y%d</n></p>\n' % (i, i, i) for i in range(300))
DOCUMENT = b"<db>\n" + RECORDS + b"</db>\n"
QUERIES = [
    "/db/s[n = 'x250']",
    "//p/n",
    "/db/q",
    "//s[@id > 298]/n",
    "/db/s[2]",
    "/db/p[n = 'y3']",
    "/db/*/n[. = 'x7']",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.xml").write_bytes(DOCUMENT)
    (tmp_path / "a.xml.gz").write_bytes(gzip.compress(DOCUMENT))
    (tmp_path / "bad.xml").write_bytes(DOCUMENT[:8000] + b"</oops>" + DOCUMENT[8000:])
    (tmp_path / "subs.txt").write_text("\n".join(QUERIES))
    (tmp_path / "db.dtd").write_text(
        "<!ELEMENT db (s|p)*><!ELEMENT s (n)><!ATTLIST s id CDATA #REQUIRED><!ELEMENT p (n)><!ELEMENT n (#PCDATA)>"
    )
    return tmp_path


Run = Callable[..., Any]


@pytest.mark.parametrize("result", ["match", "nodes", "fragments"])
@pytest.mark.parametrize("schema", [[], ["--schema", "db.dtd"]])
def test_match_prints_what_match_prints(run: Run, folder: Path, result: str, schema: list[str]) -> None:
    expected = run("match", "-s", "subs.txt", "--result", result, "a.xml")
    assert expected.returncode == 0
    small = ["--batch-bytes", "1K", "--jobs", "1", "--chunks", "3", "--result", result, *schema]
    done = run("chunk", "match", "-s", "subs.txt", *small, "a.xml")
    assert (done.stdout, done.returncode) == (expected.stdout, 0)
    done = run("chunk", "match", "-s", "subs.txt", *small, "a.xml.gz")
    assert (done.stdout.replace("a.xml.gz", "a.xml"), done.returncode) == (expected.stdout, 0)
    done = run("chunk", "match", "-s", "subs.txt", *small, "-", stdin=DOCUMENT)
    assert (done.stdout.replace('"-"', '"a.xml"'), done.returncode) == (expected.stdout, 0)


def test_match_hands_large_and_compressed_files_over(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    whole = large.LargeFiles.match
    monkeypatch.setattr(large.LargeFiles, "match", lambda self, name, *to: seen.append(name) or whole(self, name, *to))
    expected = run("match", "-s", "subs.txt", "a.xml").stdout
    assert not seen
    done = run("match", "-s", "subs.txt", "--chunk-above", "1K", "a.xml", "a.xml.gz")
    assert done.stdout == expected + expected.replace("a.xml", "a.xml.gz")
    assert seen == ["a.xml", "a.xml.gz"]
    assert run("match", "-s", "subs.txt", "--chunk-above", "1M", "a.xml").stdout == expected
    assert seen == ["a.xml", "a.xml.gz"]


def test_a_folder_stands_for_its_files_and_stdin_may_be_compressed(run: Run, folder: Path) -> None:
    (folder / "in" / "b").mkdir(parents=True)
    for name in ("in/1.xml", "in/b/2.xml"):
        (folder / name).write_bytes(DOCUMENT)
    expected = run("match", "-s", "subs.txt", "in")
    assert {json.loads(line)["message"] for line in expected.stdout.splitlines()} == {"in/1.xml", "in/b/2.xml"}
    done = run("chunk", "match", "-s", "subs.txt", "in")
    assert (done.stdout, done.returncode) == (expected.stdout, 0)
    expected = run("match", "-s", "subs.txt", "-", stdin=DOCUMENT)
    for command in (["match"], ["chunk", "match"]):
        done = run(*command, "-s", "subs.txt", "-", stdin=gzip.compress(DOCUMENT))
        assert (done.stdout, done.returncode) == (expected.stdout, 0), command


def test_a_broken_file_gives_the_results_before_the_error(run: Run, folder: Path) -> None:
    whole = run("match", "-s", "subs.txt", "bad.xml")
    done = run("chunk", "match", "-s", "subs.txt", "--batch-bytes", "1K", "bad.xml")
    assert done.returncode == whole.returncode == 2
    assert done.stderr == whole.stderr
    found = {json.loads(line)["subscription"] for line in done.stdout.splitlines()}
    assert {2, 6, 7} <= found
    assert 1 not in found  # it comes after


def test_nothing_matches_and_nothing_there(run: Run, folder: Path) -> None:
    (folder / "none.txt").write_text("/db/nothing\n")
    assert run("chunk", "match", "-s", "none.txt", "a.xml").returncode == 1
    missing = run("chunk", "match", "-s", "subs.txt", "missing.xml")
    assert missing.returncode == 2
    assert missing.stderr == "missing.xml: unreadable: No such file or directory\n"
    assert run("chunk", "match", "-s", "subs.txt", "--schema", "missing.dtd", "a.xml").returncode == 2
    (folder / "wrong.txt").write_text("/db/\n")
    wrong = run("chunk", "plan", "-s", "wrong.txt")
    assert wrong.returncode == 2
    assert "wrong.txt:1" in wrong.stderr


def test_too_large_a_part(run: Run, folder: Path) -> None:
    done = run("chunk", "match", "-s", "subs.txt", "--max-bytes", "4K", "--batch-bytes", "1K", "a.xml")
    assert done.returncode == 2
    assert "fragment-too-large: subscription 5" in done.stderr
    done = run("chunk", "match", "-s", "subs.txt", "--max-document", "4K", "a.xml")
    assert done.returncode == 2
    assert "limit-size" in done.stderr


def test_plan(run: Run, folder: Path) -> None:
    done = run("chunk", "plan", "-s", "subs.txt", "--chunks", "2", "--schema", "db.dtd", "--format", "jsonl")
    assert done.returncode == 0
    chunks = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["chunk"] for one in chunks][:2] == [1, 2]
    assert all(one["prefix"].startswith("/db/") for one in chunks[:2])
    assert "subscription 3" in done.stderr  # no valid document has it
    assert "/db/p" in run("chunk", "plan", "-s", "subs.txt", "--format", "table").stdout


@pytest.mark.parametrize("batches", [[], ["--batch-bytes", "1K"]])
def test_split(run: Run, folder: Path, batches: list[str]) -> None:
    done = run("chunk", "split", "-s", "subs.txt", "--chunks", "2", "--output", "parts", *batches, "a.xml.gz")
    assert done.returncode == 0, done.stderr
    entries = [json.loads(line) for line in (folder / "parts" / "fragments.jsonl").read_text().splitlines()]
    assert {one["chunk"] for one in entries} >= ({0, 1} if batches else {0, 1, 2})
    assert (len(entries) == 3) == (not batches)
    for one in entries:
        assert etree.parse(folder / "parts" / one["file"]).getroot().tag == "db"
        assert one["subscriptions"]
        assert all(DOCUMENT[offset : offset + 1] == b"<" for _, _, offset in one["nodes"])
    broken = run("chunk", "split", "-s", "subs.txt", "--output", "parts", "bad.xml")
    assert broken.returncode == 2
    assert broken.stderr.startswith("bad.xml:")


def test_fragments_are_written_as_in_the_document(run: Run, folder: Path) -> None:
    (folder / "quotes.xml").write_text("<db b='1' a='2'><s id='1'><n><![CDATA[<]]>&#62;</n></s><s id = '2'></s></db>")
    (folder / "all.txt").write_text("/db/s\n/db\n//n\n//s/@id\n/db/s[last()]\n")
    expected = run("match", "-s", "all.txt", "--result", "fragments", "quotes.xml")
    done = run("chunk", "match", "-s", "all.txt", "--result", "fragments", "-j", "1", "quotes.xml")
    assert (done.stdout, done.stderr) == (expected.stdout, expected.stderr)


@pytest.mark.parametrize("result", ["nodes", "fragments"])
def test_what_is_selected_of_a_broken_file_is_not_all(run: Run, folder: Path, result: str) -> None:
    (folder / "some.txt").write_text("/db/s/n\n")
    done = run("chunk", "match", "-s", "some.txt", "--result", result, "--batch-bytes", "1K", "bad.xml")
    (found,) = map(json.loads, done.stdout.splitlines())
    assert found[result] and found["complete"] is False
    done = run("chunk", "match", "-s", "some.txt", "--result", result, "--batch-bytes", "1K", "a.xml")
    assert "complete" not in json.loads(done.stdout)


@pytest.mark.parametrize("query", ['"query": "S/a->x JOIN{x = y, 5} S/b->y"', '"query": "/db", "stream": "S"'])
def test_streams_are_not_for_large_documents(run: Run, folder: Path, query: str) -> None:
    (folder / "streams.jsonl").write_text(f'{{"id": 1, {query}}}\n')
    done = run("chunk", "match", "-s", "streams.jsonl", "a.xml")
    assert done.returncode == 2 and not done.stdout and "streams.jsonl:1" in done.stderr and "--stream" in done.stderr


def test_match_does_not_take_apart_what_it_has_to_validate(run: Run, folder: Path) -> None:
    (folder / "invalid.xml").write_bytes(DOCUMENT.replace(b"</db>", b"<n/></db>"))
    for name, status in (("a.xml", 0), ("invalid.xml", 2)):
        strict = ["--schema", "db.dtd", "--on-invalid", "reject", "--chunk-above", "1K"]
        assert run("match", "-s", "subs.txt", *strict, name).returncode == status
