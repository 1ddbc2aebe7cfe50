"""Run the lint rules that the code does not satisfy yet, and see that they are broken no more often than before.

`ratchet.json` has the number of places for each rule; the numbers only fall. `tools/ratchet.py --record` writes the
numbers of today where they are lower. Clippy runs once for everything: a warning of any other rule is an error.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COUNTS = Path(__file__).with_name("ratchet.json")
RUFF_RULES = ("D103", "D401")
RUST_RULES = ("unreachable_pub", "clippy::undocumented_unsafe_blocks")
SHOWN = 20


@dataclass(frozen=True, order=True)
class Place:
    """Where a rule is broken."""

    path: str
    line: int
    column: int
    rule: str
    text: str


def ruff() -> set[Place]:
    """Return where the product's Python breaks a rule of the ratchet."""
    program = Path(sys.executable).with_name("ruff")
    rules = ",".join(RUFF_RULES)
    command = [str(program), "check", "--select", rules, "--exit-zero", "--output-format", "json", "python"]
    found = json.loads(_run(command).stdout)
    return {
        Place(
            str(Path(one["filename"]).relative_to(ROOT)),
            one["location"]["row"],
            one["location"]["column"],
            one["code"],
            one["message"],
        )
        for one in found
    }


def clippy() -> tuple[set[Place], list[str]]:
    """Return where Rust breaks a rule of the ratchet, and every other warning or error as text."""
    warn = [part for rule in RUST_RULES for part in ("-W", rule)]
    command = ["cargo", "clippy", "-q", "--workspace", "--all-targets", "--message-format=json", "--", *warn]
    done = _run(command, check=False)
    places: set[Place] = set()
    others: dict[str, None] = {}  # in order, each once: a file may belong to several targets
    for line in done.stdout.splitlines():
        entry = json.loads(line) if line.startswith("{") else {}
        message = entry.get("message") if entry.get("reason") == "compiler-message" else None
        if not message:
            continue
        rule = (message["code"] or {}).get("code", "")
        if rule in RUST_RULES:
            span = next(span for span in message["spans"] if span["is_primary"])
            at = span["line_start"], span["column_start"]
            places.add(Place(span["file_name"], *at, rule, message["message"]))
        elif message["level"] in ("warning", "error") and message["spans"]:
            others[message["rendered"]] = None
    if done.returncode and not others:
        others[done.stderr] = None
    return places, list(others)


def _run(command: list[str], check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if check and done.returncode:
        sys.exit(done.stderr)
    return done


def changed_files() -> set[str]:
    """Return the files that differ from the branch main; those that break a rule anew are among them."""
    base = _run(["git", "merge-base", "HEAD", "main"], check=False).stdout.strip() or "HEAD"
    return set(_run(["git", "diff", "--name-only", base], check=False).stdout.splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("--record", action="store_true", help="write down numbers that are lower now")
    record = parser.parse_args().record
    of_rust, others = clippy()
    for text in others:
        print(text, file=sys.stderr)
    places = ruff() | of_rust
    counts = Counter(place.rule for place in places)
    allowed: dict[str, int] = json.loads(COUNTS.read_text())
    failed = bool(others)
    for rule in (*RUFF_RULES, *RUST_RULES):
        if counts[rule] > allowed[rule]:
            failed = True
            changed = changed_files()
            print(f"{rule} is broken in {counts[rule]} places, {allowed[rule]} are allowed; of those in changed files:")
            for place in sorted(p for p in places if p.rule == rule and p.path in changed)[:SHOWN]:
                print(f"  {place.path}:{place.line}:{place.column}: {place.text}")
        elif counts[rule] < allowed[rule] and not record:
            print(f"{rule} is broken in {counts[rule]} places, {allowed[rule]} were: tools/ratchet.py --record")
    if record:
        lower = {rule: min(counts[rule], most) for rule, most in allowed.items()}
        COUNTS.write_text(json.dumps(lower, indent=2) + "\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
