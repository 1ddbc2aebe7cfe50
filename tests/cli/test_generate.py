from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lxml import etree

DTD = "<!ELEMENT a (b | c)*><!ELEMENT b (#PCDATA)><!ELEMENT c (a?)><!ATTLIST c x CDATA #IMPLIED>"


def test_documents_to_stdout_one_per_line(run: Any, folder: Any) -> None:
    folder({"a.dtd": DTD})
    done = run("generate", "documents", "--dtd", "a.dtd", "-n", "20", "--seed", "3")
    assert [etree.fromstring(line).tag for line in done.stdout.splitlines()] == ["a"] * 20
    again = run("generate", "documents", "--dtd", "a.dtd", "-n", "20", "--seed", "3")
    assert again.stdout == done.stdout
    assert run("generate", "documents", "--dtd", "a.dtd", "-n", "20", "--seed", "4").stdout != done.stdout


def test_documents_to_files_that_match_takes(run: Any, tmp_path: Path) -> None:
    command = (
        "generate documents --vocabulary bib -n 12 -o out --depth 4 --max-repeats book=20..20 --max-repeats author=5"
    )
    assert run(*command.split()).returncode == 0
    files = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert files[:2] == ["01.xml", "02.xml"] and len(files) == 12
    assert all(len(etree.parse(str(p)).getroot()) == 20 for p in (tmp_path / "out").iterdir())
    assert run("generate", "queries", "--vocabulary", "bib", "-n", "50", "-o", "q.txt").returncode == 0
    done = run("match", "-s", "q.txt", "out")
    assert done.returncode == 0 and done.stdout.count("\n") > 12


def test_queries(run: Any, folder: Any) -> None:
    folder({"a.dtd": DTD})
    options = "--dtd a.dtd -n 200 --depth 5 --descendant 0.3 --wildcard 0.1 --nested 1 --predicates 1"
    lines = run("generate", "queries", *options.split()).stdout.splitlines()
    assert len(set(lines)) == 200
    for line in lines:
        etree.XPath(line)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("documents", "give either --dtd FILE or --vocabulary"),
        ("documents --dtd none.dtd", "No such file"),
        ("documents --vocabulary bok", "did you mean 'book'?"),
        ("documents --vocabulary bib --max-repeats bok=3", "'bok', which the DTD does not declare"),
        ("documents --vocabulary bib --max-repeats 5..2", "must be of the form"),
        ("documents --vocabulary bib --root x", "no element 'x'"),
        ("queries --vocabulary bib --wildcard 2", "0<=x<=1"),
        ("queries --vocabulary bib -n 100000", "distinct queries of the 100000 asked for"),
    ],
)
def test_mistakes(run: Any, options: str, words: str) -> None:
    done = run("generate", *options.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr and "Traceback" not in done.stderr
