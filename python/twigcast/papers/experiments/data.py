"""The numbers of a page as data, a JSON file beside it: the page is made from it, and a check reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from twigcast.papers.experiments.claims import Claim, Outcome
from twigcast.papers.experiments.measure import Spread
from twigcast.papers.experiments.report import Cell, Plot, Report, Table, Unit

DIGITS = 6


def to_data(report: Report) -> str:
    """Return a report as JSON, a row of a table on each line. Lines of plots are left to the pictures."""
    head = {key: getattr(report, key) for key in _HEAD}
    lines = [f"  {json.dumps(key)}: {_text(value)}," for key, value in head.items()]
    parts = ",\n".join(_part(part) for part in report.parts)
    return "\n".join(["{", *lines, '  "parts": [', parts, "  ]", "}"]) + "\n"


_HEAD = ("name", "title", "command", "machine", "load", "preface", "processes", "rounds", "quick")


def _part(part: Table | Plot) -> str:
    if isinstance(part, Plot):
        return "    " + _text({"plot": part.name, "title": part.title})
    claims = [
        {
            "text": one.text,
            "measured": [_cell(some) for some in one.measured],
            "outcome": one.outcome.value,
            "likely": one.likely,
            "why": one.why,
        }
        for one in part.claims
    ]
    unit = part.unit and {"text": part.unit.text, "absolute": part.unit.absolute}
    fields = {"table": part.title, "remark": part.remark, "unit": unit, "columns": list(part.columns)}
    lines = [f"      {json.dumps(key)}: {_text(value)}," for key, value in fields.items()]
    for key, rows in (
        ("sizes", [list(size) for size in part.sizes]),
        ("rows", [[_cell(cell) for cell in row] for row in part.rows]),
        ("claims", claims),
    ):
        inner = ",\n".join(f"        {_text(row)}" for row in rows)
        lines.append(f"      {json.dumps(key)}: [\n{inner}\n      ]" + ("" if key == "claims" else ","))
    return "\n".join(["    {", *lines, "    }"])


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cell(cell: Cell) -> Any:
    if not isinstance(cell, Spread):
        return cell
    return {key: float(f"{getattr(cell, key):.{DIGITS}g}") for key in ("median", "lowest", "highest")}


def report_of(data: Mapping[str, Any]) -> Report:
    """Return the report that ``to_data`` has written."""
    report = Report(**{key: data[key] for key in _HEAD})
    for part in data["parts"]:
        if "plot" in part:
            report.add(Plot(part["plot"], part["title"], "", "", {}))
            continue
        claims = [
            Claim(
                one["text"],
                [_read(some) for some in one["measured"]],
                Outcome(one["outcome"]),
                one["likely"],
                one["why"],
            )
            for one in part["claims"]
        ]
        rows = [[_read(cell) for cell in row] for row in part["rows"]]
        sizes = [(size[0], size[1], size[2]) for size in part["sizes"]]
        unit = part["unit"] and Unit(**part["unit"])
        report.add(Table(part["table"], part["columns"], rows, sizes, claims, part["remark"], unit))
    return report


def _read(cell: Any) -> Any:
    return Spread(**cell) if isinstance(cell, dict) else cell
