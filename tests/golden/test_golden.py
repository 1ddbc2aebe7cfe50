"""The output of commands, compared with checked-in texts: a change of what users see is a change of these files.

`make golden` rewrites the files in `expected/`; read the difference before it is committed.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import twigcast.cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
EXPECTED = HERE / "expected"

# name of the file in `expected/` -> commands, which run in one folder, a copy of `input/`
MATCH = {
    "match-jsonl": ["match -s filters.txt messages"],
    "match-table": ["match -s filters.txt --format table messages"],
    "match-results": [
        "match -s results.jsonl messages",
        "match -s results.jsonl --format table messages",
        "match -s filters.txt --result nodes messages",
        "match -s results.jsonl --result nodes messages/01-order.xml missing.xml",
    ],
    "match-streams": [
        "match -s correlations.jsonl --stream orders=streams/orders --stream payments=streams/payments --time /*/@at",
        "match -s correlations.jsonl --stream orders=streams/orders --stream payments=streams/payments --time /*/@at"
        " --format table",
        "match -s correlations.jsonl --stream orders streams/orders",
        "match -s filters.txt --stream orders --lateness 5m messages",
    ],
    "match-failures": [
        "match -s results.jsonl --max-result-bytes 10 messages",
        "match -s results.jsonl --max-result-bytes 10 --format table messages",
        "match -s bad.jsonl messages",
        "match -s filters.txt --max-bytes 5X messages",
        "match -s filters.txt --lateness never messages",
        "match -s filters.txt",
    ],
    "match-relational": [
        "match --engine relational -s simple.txt messages missing.xml",
        "match --engine relational -s simple.txt --format table messages",
        "match --engine relational -s filters.txt messages",
        "match --engine relational -s results.jsonl messages",
    ],
    "match-large": [
        "match -s large.jsonl --chunk-above 10 large",
        "match -s large.jsonl --chunk-above 10 --format table large/catalogue.xml",
    ],
    "chunk-match": [
        "chunk match -s large.jsonl large missing.xml",
        "chunk match -s large.jsonl --format table large",
        "chunk match -s large.jsonl --schema shop.dtd --result fragments large/catalogue.xml",
    ],
    "explain-filter": [
        "explain '/order/line[sku = \"desk\"][price > 100]'",
        "explain -s filters.txt '//line[sku = \"pen\"][price > 1]'",
        "explain --format json //sku[.=following::sku]",
        "explain --schema shop.dtd /catalogue/lamp",
        "explain /a[",
    ],
    "explain-transform": [
        "explain '<t>{ for $i in //item where $i/price > 9 return $i/name }</t>'",
        "explain --schema shop.dtd --format json '<t>{ for $i in //item return $i/name }</t>'",
    ],
    "explain-correlation": [
        "explain 'orders//order->o[@id->i] FOLLOWED BY{i = j, 5 min} payments//payment->p[@order->j]'",
        "explain -s correlations.jsonl --format json 'orders//order->o[@id->i] JOIN{i = j, INF} x//y->p[@z->j]'",
    ],
    "explain-relational": ["explain --engine relational '/order/line[sku = \"desk\"][price > 100]'"],
}
# These run in the folder that commit f693179 left.
DEAD = {
    "dead": [
        "dead list --format table",
        "dead list --format jsonl",
        "dead show 1",
        "dead show 1 --original",
        "dead show 7",
        "dead redrive --all --stream nowhere",
        "dead redrive 1",
        "dead list --format table",
        "dead list --redriven --format jsonl",
    ]
}
RUN = {
    "run-inbox": [
        "run --inbox messages --outbox out -s filters.txt --once --cores 1",
        "run --inbox messages --outbox out -s filters.txt --once --cores 1",
        "run --inbox messages",
    ],
    "run-pipeline": [
        "import results.jsonl",
        "import correlations.jsonl --replace",
        "run --once",
        "dead list --format table",
        "run pipeline.toml --once -s filters.txt",
    ],
}


class Golden:
    """Runs commands, and compares what they print with a file."""

    def __init__(self, folder: Path, rewrite: bool, run: Callable[[list[str]], tuple[int, str, str]]) -> None:
        self.folder = folder
        self._rewrite = rewrite
        self._run = run

    def check(self, name: str, commands: list[str], normalise: Callable[[str], str] = str, outputs: str = "") -> None:
        """Run the commands; the files that the pattern ``outputs`` names are part of what is compared."""
        parts = []
        for command in commands:
            status, output, errors = self._run(shlex.split(command))
            parts.append(f"$ twigcast {command}\n{output}")
            parts += [f"! {line}\n" for line in errors.splitlines()]
            parts.append(f"= {status}\n\n")
        text = normalise("".join(parts).replace(str(self.folder), "FOLDER"))
        found: dict[str, list[str]] = {}
        for path in self.folder.glob(outputs) if outputs else ():
            lines = found.setdefault(normalise(str(path.relative_to(self.folder).parent)), [])
            lines += normalise(path.read_text()).splitlines(keepends=True)
        for name_of_folder, lines in sorted(found.items()):
            # Partitions write in any order, and into as many files as there are cores.
            text += "".join([f"# {name_of_folder}\n", *sorted(lines), "\n"])
        text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
        file = EXPECTED / f"{name}.txt"
        if self._rewrite:
            EXPECTED.mkdir(exist_ok=True)
            file.write_text(text)
        wanted = file.read_text() if file.exists() else ""
        assert text == wanted, f"the output differs from {file.relative_to(HERE.parent)}; make golden rewrites it"


@pytest.fixture
def golden(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
    request: pytest.FixtureRequest,
) -> Golden:
    """A folder with the input, in which commands run in this process."""
    folder = tmp_path / "golden"
    shutil.copytree(HERE / "input", folder)
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("TWIGCAST_STORE", "TWIGCAST_CONFIG"):
        monkeypatch.delenv(name, raising=False)

    def run(arguments: list[str]) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        monkeypatch.setattr(sys, "argv", ["twigcast", *arguments])
        before = Path.cwd()
        os.chdir(made.folder)
        try:
            status = twigcast.cli.execute()
        finally:
            os.chdir(before)
        output, errors = capsysbinary.readouterr()
        return status, output.decode(), errors.decode()

    made = Golden(folder, bool(request.config.getoption("--rewrite-golden")), run)
    return made


def normalise(text: str) -> str:
    """Replace what differs between two runs: times, durations, ids, and lines of progress."""
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "TIME", text)
    text = re.sub(r"\d{4}-\d\d-\d\d", "DATE", text)
    text = re.sub(r"\b[\d.]+ s\b( \([\d.,]+ messages/s\))?", "DURATION", text)
    progress = r"^! (batch \d+|waiting for messages|matching|starting Spark|loading).*\n"
    text = re.sub(progress, "", text, flags=re.MULTILINE)
    return re.sub(r"\b[0-9a-f]{8,}\b", "ID", text)


@pytest.mark.parametrize("name", MATCH)
def test_output(name: str, golden: Golden) -> None:
    if "relational" in name:
        pytest.importorskip("duckdb")
    golden.check(name, MATCH[name])


@pytest.mark.parametrize("name", DEAD)
def test_dead_letters(name: str, golden: Golden, earlier_folder: Path) -> None:
    golden.folder = earlier_folder
    golden.check(name, DEAD[name], normalise)


@pytest.mark.parametrize("name", RUN)
def test_runs(name: str, golden: Golden, spark: SparkSession) -> None:
    golden.check(name, RUN[name], normalise, outputs="out/**/*.jsonl")
