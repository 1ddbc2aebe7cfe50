from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from twigcast.cli import COMMANDS


def test_help_names_every_command(run: Any) -> None:
    done = run("--help")
    assert done.returncode == 0
    assert all(f"\n  {name} " in done.stdout for name in COMMANDS)
    assert run("--version").stdout.startswith("twigcast 0.")


@pytest.mark.parametrize("name", [name for name in COMMANDS if find_spec(f"twigcast.cli.{name}")])
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
