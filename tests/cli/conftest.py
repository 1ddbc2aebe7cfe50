"""Runs the program as its users do: arguments and stdin in; exit status, stdout and stderr out."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import twigcast.cli


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Callable[..., Done]:
    """In this process, which saves a second a test; what needs a process of its own starts one itself."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path, stdin: str | bytes = "") -> Done:
        data = stdin if isinstance(stdin, bytes) else stdin.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
        monkeypatch.setattr(sys, "argv", ["twigcast", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            twigcast.cli.main()
        output, errors = capsysbinary.readouterr()
        return Done(int(ended.value.code or 0), output.decode(), errors.decode())

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[dict[str, str | bytes]], None]:
    """Writes files by name below the folder that ``run`` runs in."""

    def write(files: dict[str, str | bytes]) -> None:
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return write
