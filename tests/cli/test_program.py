from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from twigcast.cli import COMMANDS
from twigcast.store import Store


def test_help_names_every_command(run: Any) -> None:
    done = run("--help")
    assert done.returncode == 0
    assert all(f"\n  {name} " in done.stdout for name in COMMANDS)
    assert run("--version").stdout.startswith("twigcast 0.")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command(run: Any, name: str) -> None:
    arguments = [name, "documents"] if name == "generate" else [name]
    done = run(*arguments, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: twigcast {' '.join(arguments)}")
    assert "Example" in done.stdout


def test_a_wrong_command_or_option_is_answered_with_the_right_one(run: Any) -> None:
    done = run("macth")
    assert done.returncode == 2 and "did you mean 'match'?" in done.stderr
    done = run("match", "--subscription", "s.txt")
    assert done.returncode == 2


def test_explain(run: Any, folder: Any) -> None:
    done = run("explain", "/a//b/@c")
    assert done.returncode == 0 and "//b" in done.stdout
    folder({"s.txt": "/a\n/b\n/a\n"})
    shown = json.loads(run("explain", "--format", "json", "-s", "s.txt", "/a").stdout)
    assert (shown["query"], shown["sharing"]["path"]) == ("/a", 2)
    assert run("explain", "--ns", "p=urn:x", "/p:a").returncode == 0
    done = run("explain", "/a/[")
    assert done.returncode == 2 and done.stderr.splitlines()[1:3] == ["  /a/[", "     ^"]


def test_a_full_disk_is_an_error(folder: Any, tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    folder({"s.txt": "/a\n", "m.xml": "<a/>"})
    command = f"{sys.executable} -m twigcast.cli match -s s.txt m.xml > /dev/full"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and done.stderr.startswith("error: ") and "Traceback" not in done.stderr


def test_an_interrupt_while_importing_leaves_no_trace(tmp_path: Path) -> None:
    with (tmp_path / "s.jsonl").open("w") as lines:
        for number in range(100_000):
            lines.write(f'{{"id": "s{number}", "query": "/a[b = {number}]/c"}}\n')
    command = [sys.executable, "-m", "twigcast", "import", "--store", "sqlite:///s.db", "s.jsonl"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True) as process:
        until = time.monotonic() + 60
        while not (tmp_path / "s.db").exists() and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, noise = process.communicate(timeout=60)
    assert process.returncode == 130 and noise.strip() == "", noise
    with Store.open(f"sqlite:///{tmp_path}/s.db", create=False) as store:
        assert len(store) == 0
        store.subscribe("/a", id="s1")
        assert len(store) == 1


def test_whatever_an_interrupt_leads_to_is_an_interrupt(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries may turn it into an error of their own, and Python reports it where it cannot be raised."""

    class Deleted:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    def interrupted(*_: object, **__: object) -> None:
        Deleted()
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as error:
            raise ImportError("a library") from error

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("twigcast.cli.subscribe.opened", interrupted)
    done = run("subscribe", "/a")
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_small_match_imports_no_heavy_library(tmp_path: Path) -> None:
    """pyarrow, with NumPy and pandas, takes longer to import than a small file takes to match."""
    (tmp_path / "s.txt").write_text("/a\n//b[c = 1]\n")
    (tmp_path / "m.xml").write_text("<a><b><c>1</c></b></a>")
    program = """
import sys
from twigcast.cli import execute
sys.argv = ["twigcast", "match", "-s", "s.txt", "m.xml"]
assert execute() == 0
heavy = {"duckdb", "numpy", "pandas", "pyarrow", "pydantic", "pyspark", "rich", "sqlalchemy", "xmlschema"}
print(sorted(heavy.intersection(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 3
