from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from twigcast.cli import COMMANDS


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
