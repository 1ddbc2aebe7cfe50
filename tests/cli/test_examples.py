"""The commands of examples/README.md run as they stand there."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
COMMANDS = re.findall(r"^    twigcast (match .*)$", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
WANTED = {
    "payments": [
        ("returned", ["payments/payments/p1.xml", "payments/returns/r1.xml"]),
        ("closed accounts", None),
    ],
    "feeds": [
        ("cross-posts", ["feeds/items/1.xml", "feeds/items/3.xml"]),
        ("replies", ["feeds/items/2.xml", "feeds/items/4.xml"]),
        ("replies", ["feeds/items/1.xml", "feeds/items/5.xml"]),
        ("replies", ["feeds/items/3.xml", "feeds/items/5.xml"]),
    ],
    "alerts": [
        ("severe", None),
        ("severe", None),
        ("updated twice", [f"alerts/messages/{n}.xml" for n in (1, 2, 4)]),
    ],
}


@pytest.mark.parametrize("command", COMMANDS, ids=list(WANTED))
def test_it_runs(command: str, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    arguments = shlex.split(command)
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    name = arguments[2].split("/")[0]
    assert [(one["subscription"], one.get("messages")) for one in lines] == WANTED[name]
