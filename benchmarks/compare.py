"""Measure two revisions against each other in one run: `python benchmarks/compare.py BEFORE AFTER`.

Each revision is checked out into a temporary worktree, and its kernel is built there. Then the benchmarks of both take
turns, round by round, so that what else the machine does troubles both alike. Both are measured with the benchmarks of
AFTER, so that they do the same work. A benchmark that AFTER does not have, or that cannot run with the package of
BEFORE, is run with the code of BEFORE there, which is said.

Exit status: 0, 1 if a line is slower, 2 if a revision does not build.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BAR = 0.05
"""A change that is smaller than this counts as none, however quiet the machine is."""

Key = tuple[str, str, str]
"""Group, name and unit of a line."""


@dataclass
class Series:
    """What was measured of one line: a value a round and revision, and the bar of the later revision."""

    better: str
    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    bar: float | None = None


@dataclass(frozen=True)
class Verdict:
    """A line of the comparison. The ratio is that of costs: above 1 the later revision is slower."""

    word: str
    before: float | None = None
    after: float | None = None
    ratio: float | None = None
    noise: float | None = None
    bar: float | None = None
    misses: bool = False
    """Whether the median of the later revision misses the bar."""


def judge(series: Series) -> Verdict:
    """Compare the values of two revisions.

    The ratio is the median of the rounds' ratios. Its noise is the distance between their quartiles; of two rounds,
    that between the ratios. A change counts if it is larger than the noise and than ``BAR``.
    """
    before = median(series.before) if series.before else None
    after = median(series.after) if series.after else None
    if before is None or after is None:
        word = "only after" if before is None else "only before"
        return Verdict(word, before, after, bar=series.bar, misses=_misses(series, after))
    costs = list(zip(series.before, series.after, strict=False))
    if series.better == "higher":
        costs = [(new, old) for old, new in costs]
    ratios = [_ratio(old, new) for old, new in costs]
    ratio, noise = median(ratios), spread(ratios)
    least = max(noise, BAR)
    # 1.25 times slower is 1/1.25 of the speed: both directions are judged alike.
    word = "slower" if ratio > 1 + least else "faster" if ratio * (1 + least) < 1 else "same"
    return Verdict(word, before, after, ratio, noise, series.bar, _misses(series, after))


def _misses(series: Series, after: float | None) -> bool:
    if series.bar is None or after is None:
        return False
    return after < series.bar if series.better == "higher" else after > series.bar


def _ratio(old: float, new: float) -> float:
    return new / old if old else 1.0 if not new else float("inf")


def spread(ratios: Sequence[float]) -> float:
    """Return the distance between the quartiles; with fewer than three values, that between the extremes."""
    if len(set(ratios)) == 1:
        return 0.0
    if len(ratios) < 3:
        return max(ratios) - min(ratios)
    low, _, high = quantiles(ratios, n=4, method="inclusive")
    return high - low


# -- revisions


@dataclass
class Revision:
    """A revision that is checked out and built."""

    name: str
    folder: Path
    benchmarks: frozenset[str] = frozenset()
    failed: set[str] = field(default_factory=set)
    own: set[str] = field(default_factory=set)
    """Benchmarks that are measured with this revision's own code, since that of the other one does not run here."""

    def environment(self, code: Path) -> dict[str, str]:
        """Return the environment in which ``benchmarks`` of ``code`` measures the package of this revision."""
        # Compiled modules are kept, as they are where a program is installed.
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
        return {**kept, "PYTHONPATH": os.pathsep.join((str(self.folder / "python"), str(code))), "PATH": path}


class Failed(Exception):
    """A command that did not succeed; the text is the end of what it said."""


def call(command: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    """Run a command and return what it prints."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed("\n".join((done.stderr or done.stdout).strip().splitlines()[-12:]))
    return done.stdout.strip()


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextmanager
def checked_out(names: Sequence[str]) -> Iterator[list[Revision]]:
    """Yield worktrees of revisions with their kernels, and remove them afterwards."""
    repository = Path(call(["git", "rev-parse", "--path-format=absolute", "--git-common-dir"], ROOT)).parent
    with tempfile.TemporaryDirectory(prefix="twigcast-compare-") as temporary:
        # The benchmarks look for their corpora beside the project.
        (Path(temporary) / "shared").symlink_to(repository.parent / "shared")
        made: list[Revision] = []
        try:
            for number, name in enumerate(names):
                folder = Path(temporary) / f"revision-{number}"
                call(["git", "worktree", "add", "--detach", str(folder), name], ROOT)
                made.append(Revision(name, folder))
                if (repository / "Cargo.lock").is_file():  # not in the repository: both take the same crates
                    shutil.copy(repository / "Cargo.lock", folder)
                build(made[-1], repository / "target" / "compare")
            yield made
        finally:
            for one in made:
                call(["git", "worktree", "remove", "--force", str(one.folder)], ROOT)


def build(revision: Revision, target: Path) -> None:
    """Build the kernel, or take the one that an earlier comparison built from the same sources."""
    kernel = target / f"kernel-{call(['git', 'rev-parse', 'HEAD:crates'], revision.folder)}.so"
    if not kernel.is_file():
        say(f"{revision.name}: building the kernel")
        # One folder for all, so that the crates that both depend on are compiled once.
        environment = {**os.environ, "CARGO_TARGET_DIR": str(target), "PYO3_PYTHON": sys.executable}
        cargo = ["cargo", "build", "-q", "--release", "-p", "twigcast-python", "--features", "pyo3/extension-module"]
        call(cargo, revision.folder, environment)
        shutil.copy(target / "release" / "lib_kernel.so", kernel)
    shutil.copy(kernel, revision.folder / "python" / "twigcast" / "_kernel.abi3.so")
    listing = "from benchmarks.__main__ import BENCHMARKS; print(*BENCHMARKS)"
    environment = revision.environment(revision.folder)
    revision.benchmarks = frozenset(call([sys.executable, "-c", listing], revision.folder, environment).split())


# -- measuring


class Measured(NamedTuple):
    """A line of one run: its value, whether lower or higher is better, and its bar."""

    value: float
    better: str
    bar: float | None


def measure(revision: Revision, name: str, code: Path, *, quick: bool) -> dict[Key, Measured]:
    """Run one benchmark and return what it measured, by line."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "lines.json"
        command = [sys.executable, "-m", "benchmarks", "--only", name, "--json", str(file), "--plot", f"{file}.png"]
        call([*command, *(["--quick"] if quick else [])], code, revision.environment(code))
        lines = json.loads(file.read_text())["lines"]
    return {
        (line["group"], line["name"], line["unit"]): Measured(line["value"], line["better"], line["bar"])
        for line in lines
    }


def compare(revisions: Sequence[Revision], names: Sequence[str], rounds: int, *, quick: bool) -> dict[Key, Series]:
    """Measure both revisions by turns. The one that begins changes from round to round."""
    found: dict[Key, Series] = {}
    for turn in range(rounds):
        for name in names:
            for number in (0, 1) if turn % 2 == 0 else (1, 0):
                one = revisions[number]
                if name in one.failed:
                    continue
                say(f"round {turn + 1} of {rounds}: {name}, {one.name}")
                try:
                    values = _measured(one, revisions, name, quick=quick)
                except Failed as error:
                    one.failed.add(name)
                    say(f"{one.name} cannot run {name}: {error}")
                    continue
                for key, measured in values.items():
                    series = found.setdefault(key, Series(measured.better))
                    (series.before, series.after)[number].append(measured.value)
                    if number == 1:
                        series.bar = measured.bar
    return found


def _measured(one: Revision, revisions: Sequence[Revision], name: str, *, quick: bool) -> dict[Key, Measured]:
    """Measure a revision with the benchmarks of the later one, or with its own where these cannot be used."""
    before, after = revisions
    if name in after.benchmarks and name not in one.own:
        try:
            return measure(one, name, after.folder, quick=quick)
        except Failed as error:
            if one is after or name not in one.benchmarks:
                raise
            one.own.add(name)
            say(f"{one.name} is measured with its own code of {name}, which may do other work: {error}")
    return measure(one, name, one.folder if name in one.benchmarks else before.folder, quick=quick)


def show(key: Key, verdict: Verdict) -> str:
    """Return a line of the table."""
    group, name, unit = key
    values = "".join(f"{'-' if one is None else f'{one:.4g}':>12}" for one in (verdict.before, verdict.after))
    change = "" if verdict.ratio is None else f"{verdict.ratio:>8.3f} ±{verdict.noise:.3f}"
    bar = f"misses its bar of {verdict.bar:.4g}" if verdict.misses else ""
    return f"{group:<20} {name:<52}{values} {unit:<12}{change:<17} {verdict.word:<12}{bar}".rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", metavar="BEFORE", help="a revision, such as f693179")
    parser.add_argument("after", metavar="AFTER", help="a revision, such as main")
    parser.add_argument("--only", action="append", metavar="NAME", help="a benchmark, as of python -m benchmarks")
    parser.add_argument("--rounds", type=int, default=5, help="how often both are measured (5)")
    parser.add_argument("--quick", action="store_true", help="smaller sizes: a check that all runs, not a result")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    try:
        with checked_out([options.before, options.after]) as revisions:
            known = revisions[0].benchmarks | revisions[1].benchmarks
            unknown = set(options.only or ()) - known
            if unknown:
                parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
            found = compare(revisions, options.only or sorted(known), options.rounds, quick=options.quick)
    except Failed as error:
        say(str(error))
        return 2
    verdicts = {key: judge(series) for key, series in found.items()}
    for key, verdict in verdicts.items():
        print(show(key, verdict))
    slower = sum(verdict.word == "slower" for verdict in verdicts.values())
    missed = sum(verdict.misses for verdict in verdicts.values())
    print(f"{slower} of {len(verdicts)} lines slower by more than their noise and {BAR:.0%}; {missed} miss their bar")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
