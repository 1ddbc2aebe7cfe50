"""Every example of docs/filters.md is run."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from twigcast import Engine
from twigcast.explain import explain

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "filters.md"
TEXT = PAGE.read_text()


def rows(columns: int) -> list[list[str]]:
    """The rows of the tables with so many columns, without headings."""
    found = [re.split(r" (?<!\\)\| ", line.strip("| \n")) for line in TEXT.splitlines() if line.startswith("|")]
    return [
        [cell.replace("\\|", "|") for cell in row] for row in found if len(row) == columns and "`" in row[1] + row[0]
    ]


def block(first: str) -> str:
    """The indented lines that begin with ``first``."""
    lines = TEXT[TEXT.index(f"    {first}") :].splitlines()
    end = next(i for i, line in enumerate(lines) if not line.startswith("    "))
    return "".join(f"{line[4:]}\n" for line in lines[:end])


@pytest.mark.parametrize(("example", "kind"), [(row[1], row[2]) for row in rows(3)])
def test_how_it_runs(example: str, kind: str) -> None:
    assert explain(example.strip("`")).kind == kind


@pytest.mark.parametrize(("query", "message", "matches"), [row[:3] for row in rows(4)])
def test_what_it_means(query: str, message: str, matches: str) -> None:
    engine = Engine()
    engine.add(query.strip("`"))
    assert bool(engine.match(message.strip("`").encode())) == {"yes": True, "no": False}[matches]


def test_the_tables_are_found() -> None:
    assert len(rows(3)) >= 18 and len(rows(4)) >= 18


def test_the_library() -> None:
    assert doctest.testfile(str(PAGE), module_relative=False).failed == 0


def test_the_command_line(run: Any, folder: Any) -> None:
    folder({"stocks.txt": block("/stock[price > 50 and"), "order.xml": block("<order id")})
    commands = re.findall(r"^    \$ (twigcast .*)\n((?:    .*\n)*)", TEXT, re.MULTILINE)
    assert len(commands) >= 11
    for command, shown in commands:
        done = run(*shlex.split(command)[1:])
        expected = "".join(f"{line[4:]}\n" for line in shown.splitlines())
        assert done.stdout + done.stderr == expected, command


def test_shapes_that_mean_the_same() -> None:
    assert len({explain(query).pattern for query in ("a[b]/c", "a[c]/b", "a[b and c]")}) == 1
