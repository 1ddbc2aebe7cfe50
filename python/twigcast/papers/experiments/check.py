"""Checking a page: it is measured again, and each of its numbers and verdicts is compared with the new ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from twigcast.errors import OptionError
from twigcast.papers.experiments.claims import Claim
from twigcast.papers.experiments.data import report_of, to_data
from twigcast.papers.experiments.measure import Spread
from twigcast.papers.experiments.report import Cell, Report, Table, show


@dataclass
class Checked:
    """What a check has found: what differs, in words, and how many numbers were compared."""

    notes: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    measured: int = 0
    inside: int = 0
    counted: int = 0
    equal: int = 0
    claims: int = 0
    confirmed: int = 0

    def lines(self) -> list[str]:
        """Return the lines to print."""
        return [
            *self.notes,
            *self.differences,
            f"{self.inside} of {self.measured} measured numbers lie within their spread,"
            f" {self.equal} of {self.counted} counts and texts are equal,"
            f" {self.confirmed} of {self.claims} claims are confirmed",
        ]


def printed_report(page: Path) -> Report:
    """Return the report of a page, from the data beside it."""
    file = page.with_suffix(".json")
    if not file.is_file():
        raise OptionError("no-page", f"there is no {file}", hint="make the page first: twigcast bench … --output DIR")
    return report_of(json.loads(file.read_text(encoding="utf-8")))


def checked(page: Path, again: Report) -> Checked:
    """Compare a page, and the data beside it, with a report of the same experiments that was made now."""
    printed = printed_report(page)
    again = report_of(json.loads(to_data(again)))
    found = Checked()
    if page.with_suffix(".md").read_text(encoding="utf-8") != printed.markdown():
        found.differences.append(f"{page.with_suffix('.md')} does not show what {page.with_suffix('.json')} has")
    if printed.machine != again.machine:
        found.notes.append(f"The page was made on {printed.machine}; this is {again.machine}.")
    tables = {table.title: table for table in again.tables()}
    if [table.title for table in printed.tables()] != list(tables):
        found.differences.append(f"the tables are now {', '.join(tables)}")
    for table in printed.tables():
        if table.title in tables:
            _compare(table, tables[table.title], found)
    return found


def _compare(printed: Table, again: Table, found: Checked) -> None:
    title = printed.title
    for name in ("columns", "sizes"):
        _compare_text(f"{title}: {name}", repr(getattr(printed, name)), repr(getattr(again, name)), found)
    if len(printed.rows) != len(again.rows):
        found.differences.append(f"{title}: {len(printed.rows)} rows, now {len(again.rows)}")
    for before, after in zip(printed.rows, again.rows, strict=False):
        for at, (place, cell, other) in enumerate(zip(printed.columns, before, after, strict=True)):
            row = ", ".join(show(one) for one in before[: 3 if at > 2 else 1] if not isinstance(one, Spread))
            _compare_cells(f"{title}: row {row}: {place}", cell, other, found)
    if len(printed.claims) != len(again.claims):
        found.differences.append(f"{title}: {len(printed.claims)} claims, now {len(again.claims)}")
    for claim, other_claim in zip(printed.claims, again.claims, strict=False):
        _compare_claims(title, claim, other_claim, found)


def _compare_claims(title: str, printed: Claim, again: Claim, found: Checked) -> None:
    where = f"{title}: claim: {printed.text}"
    for part, other in _pairs(printed.measured, again.measured):
        _compare_cells(where, part, other, found)
    found.claims += 1
    if again.text == printed.text and again.agrees_with(printed):
        found.confirmed += 1
    else:
        now = "holds" if again.likely else "does not hold"
        found.differences.append(f"{where}: printed that it {printed.outcome.value}; now it {now} ({again.text})")


def _pairs(a: Sequence[str | Spread], b: Sequence[str | Spread]) -> Iterator[tuple[Cell, Cell]]:
    for at in range(max(len(a), len(b))):
        yield a[at] if at < len(a) else None, b[at] if at < len(b) else None


def _compare_cells(where: str, printed: Cell, again: Cell, found: Checked) -> None:
    if not isinstance(printed, Spread) or not isinstance(again, Spread):
        _compare_text(where, show(printed), show(again), found)
        return
    found.measured += 1
    if printed.includes(again.median):
        found.inside += 1
        return
    below = again.median < printed.low
    bound = printed.low if below else printed.high
    far = abs(again.median / bound - 1) if bound else float("inf")
    side = "below" if below else "above"
    found.differences.append(f"{where}: printed {printed}, now {again}: {100 * far:.1f} % {side}")


def _compare_text(where: str, printed: str, again: str, found: Checked) -> None:
    found.counted += 1
    if printed == again:
        found.equal += 1
    else:
        found.differences.append(f"{where}: printed {printed}, now {again}")
