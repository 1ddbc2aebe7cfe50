"""What a command costs before it does anything: CPU time of processes, imports included."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing import Line


def lines(quick: bool) -> Iterator[Line]:
    """Yield the CPU seconds of `--help`, and of `match` with one subscription and one message of 62 bytes."""
    runs = 3 if quick else 15
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "subscriptions.txt").write_text("/quote[price > 50]\n")
        (Path(folder) / "message.xml").write_text("<quote><symbol>IBM</symbol><price>51</price></quote>\n")
        commands = {
            "--help": (["--help"], 0.12),
            "match, a tiny file": (["match", "-s", "subscriptions.txt", "message.xml"], 0.25),
        }
        bare = min(cpu_seconds([sys.executable, "-c", "import click"], folder) for _ in range(runs))
        for name, (arguments, bar) in commands.items():
            program = [sys.executable, "-m", "twigcast", *arguments]
            took = min(cpu_seconds(program, folder) for _ in range(runs))
            note = f"CPU, the best of {runs}; Python and click alone {bare:.3f} s"
            yield Line("starting", name, took, "s", bar, "lower", note)


def cpu_seconds(command: list[str], folder: str) -> float:
    """Return the CPU time that a process takes."""
    # Compiled modules are kept, as they are where a program is installed.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
