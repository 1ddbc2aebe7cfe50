"""What a run shows beside the published figures, in a sentence or two each, read off its own tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twigcast.experiments.report import Cell

Times = Mapping[str, Sequence[float]]
Rows = Sequence[Sequence[Cell]]


def alternatives(times: Times, reason: str) -> str:
    first, last = (_ratio(times["FWR"][at], times["FW"][at]) for at in (0, -1))
    tree = _ratio(times["FWR"][-1], times["F"][-1])
    return (
        f"-FWR takes {first} times what -FW takes without optimisation, and {last} times with all of it ({tree} times"
        f" what -F takes). {reason}"
    )


def operators(rows: Rows) -> str:
    """Of Table 2, which has our rows and the published ones by turns."""
    ours, last = (_shares(row) for row in (rows[0], rows[-2]))
    return (
        f"DupElim is {ours[2]} of these costs without optimisation (published: 49 %) and {last[2]} with the DTD (0 %);"
        f" selection is then {last[1]} (46 %), semijoins {last[3]} (20 %) and outer joins {last[4]} (24 %)."
    )


def counts(rows: Rows) -> str:
    hashed, merged, _, _, left = map(_number, rows[2][1:])
    total = hashed + merged
    return (
        "Without optimisation and with the DTD the counts follow from the claims, and are the paper's for as many"
        " queries."
        f" By the query alone {_percent(merged, total)} of the plans merge (61 % published) and {left / total:.2f}"
        " DupElims per plan are left (0.09): that depends on where a generator puts its //."
    )


def predicates(rows: Rows) -> str:
    spread = [_ratio(max(times), min(times)) for times in (list(map(_number, row[1:4])) for row in (rows[0], rows[-1]))]
    return (
        f"Groups per document go from {rows[0][4]:,.0f} to {rows[-1][4]:,.0f}. The slowest of the three takes"
        f" {spread[0]}"
        f" times the fastest with one predicate, and {spread[1]} times with {rows[-1][0]}; published, the differences"
        " vanish with the results, which are most of the work there."
    )


def growth(rows: Rows, what: str, reason: str) -> str:
    """Of Figures 9 and 11: from the first row to the last."""
    each = [_ratio(_number(rows[-1][at]), _number(rows[0][at])) for at in (1, 2, 3)]
    return (
        f"From {what} = {rows[0][0]:,} to {rows[-1][0]:,} the time of -F grows {each[0]} times, that of -FW {each[1]}"
        f" and that of -FWR {each[2]} times. {reason}"
    )


def apart(rows: Rows) -> str:
    shares = _shares([None, *_ours(rows)[-1][1:-1]])
    return (
        f"At the largest Q, selections are {shares[0]} of the total, semijoins {shares[2]} and outer joins {shares[3]};"
        " published for 50,000: 17, 28 and 34 %."
    )


def together(rows: Rows) -> str:
    ours = _ours(rows)
    first, last = ours[0], ours[-1]
    joins = _ratio(_number(last[2]) + _number(last[4]), _number(first[2]) + _number(first[4]))
    outer = _ratio(_number(last[5]), _number(first[5]))
    return (
        f"From Q = {first[0]:,} to {last[0]:,} selections and joins grow {joins} times, outer joins {outer} times;"
        " published from 10,000 to 50,000: 1.1 and 4.8 times. Equal outer joins are shared here, which they were not"
        " there, but most results are different ones."
    )


def scaling(rows: Rows) -> str:
    row = [row for row in rows if row[2] is not None][-1]
    shared, own = (_ratio(_number(row[2]), _number(row[at])) for at in (3, 4))
    return (
        f"At Q = {row[0]:,} plan sharing is {shared} times as fast as none; published for 50,000: 9.4 times (2,985"
        " and 317"
        " ms). What Twigcast does by default, which shares by relative path and needs neither claims nor a DTD, is"
        f" {own} times as fast as no sharing."
    )


def _ours(rows: Rows) -> list[Sequence[Cell]]:
    return [row for row in rows if not isinstance(row[0], str)]


def _number(cell: Cell) -> float:
    assert isinstance(cell, int | float)
    return float(cell)


def _ratio(of: float, to: float) -> str:
    return f"{of / to:.2g}" if to else "?"


def _percent(of: float, total: float) -> str:
    return f"{100 * of / total:.0f} %" if total else "0 %"


def _shares(row: Sequence[Cell]) -> list[str]:
    numbers = [_number(cell) for cell in row[1:]]
    return [_percent(one, sum(numbers)) for one in numbers]
