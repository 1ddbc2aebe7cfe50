"""The README's picture of the architecture is the folder list."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PARTS = ("crates/kernel/src", "python/twigcast")


def _pictured() -> dict[str, set[str]]:
    """Return the folders that the picture lists, by the part of the project that they are in."""
    text = (ROOT / "README.md").read_text()
    lines = text.split("## How it is built")[1].split("\n## ")[0].splitlines()
    found: dict[str, set[str]] = {}
    part = ""
    for line in lines:
        if re.match(r"    \S+/\S", line):
            part = line.split()[0].rstrip("/")
        elif part and line.startswith("      "):
            found.setdefault(part, set()).update(re.findall(r"([\w.]+)/(?:\s|$)", line[6:29]))
    return found


def test_the_picture_lists_every_folder() -> None:
    pictured = _pictured()
    for part in PARTS:
        there = {path.name for path in (ROOT / part).iterdir() if path.is_dir() and path.name != "__pycache__"}
        assert pictured[part] == there, part
