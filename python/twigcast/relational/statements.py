"""The statements that match a batch of messages with all subscriptions (relational §3.3, §4), as SQL.

They read ``sax_parse_result`` (event_id, tagpath_id, idpath, value, number) and give ``event_id`` and ``sub_id``, each
pair once. First the values of a message are gathered per linear path, so that a predicate meets each path once, however
many nodes it has; then the plan finds the conjunctions whose predicates all hold; and BrPred keeps those whose branches
meet in the same nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from twigcast.relational.compile import EQUALITIES, EXISTS, IN


@dataclass(frozen=True)
class Dialect:
    """Where the databases differ."""

    name: str
    has: str
    """That a list has an element: ``{list}`` and ``{element}``."""
    collect: str
    """All distinct values of ``{value}``, nulls left out."""
    gather: str
    """All values of ``{value}`` as a list of lists."""
    nodes: str
    """The nodes of ``{idpath}`` at the depths of ``{positions}``."""
    br_pred: str
    same: str
    """That ``{a}`` and ``{b}`` are the same string, so that an index finds the one by the other."""
    double: str


DUCKDB = Dialect(
    "duckdb",
    has="list_contains({list}, {element})",
    collect="list(DISTINCT {value})",
    gather="list({value})",
    nodes="list_transform({positions}, lambda p: {idpath}[p])",
    br_pred="br_pred",
    same="{a} = {b}",
    double="DOUBLE",
)
POSTGRESQL = Dialect(
    "postgresql",
    has="{element} = ANY({list})",
    collect="array_agg(DISTINCT {value})",
    gather="array_agg(({value})::TEXT)",
    nodes="ARRAY(SELECT {idpath}[p] FROM unnest({positions}) WITH ORDINALITY AS t (p, o) ORDER BY o)",
    br_pred="twigcast_br_pred",
    same="md5({a}) = md5({b}) AND {a} = {b}",
    double="DOUBLE PRECISION",
)
SPARK = Dialect(
    "spark",
    has="array_contains({list}, {element})",
    collect="collect_set({value})",
    gather="collect_list({value})",
    nodes="transform({positions}, p -> element_at({idpath}, p))",
    br_pred="br_pred",
    same="{a} = {b}",
    double="DOUBLE",
)

_EQUAL = "('" + "', '".join(EQUALITIES) + "')"


@dataclass(frozen=True)
class Layout:
    """What of the tables a statement has to look at."""

    unroll: int
    """Predicates per row of predicate_unroll."""
    chains: bool = True
    """There are rows in query_predicate: the rest of long conjunctions."""
    starts: bool = False
    """There are chains that are whole conjunctions (the paper's other layouts)."""
    branches: bool = True
    """There are rows in query_branch_point."""
    alternatives: bool = True
    """There are rows in query_alternative."""
    references: bool = False
    """There is reference data."""
    shapes: tuple[tuple[int, str], ...] = ()
    """Shapes of unrolled rows that have a join of their own: number and signature."""
    others: bool = True
    """There are unrolled rows of other shapes."""


class Recursion(NamedTuple):
    """A table that begins with ``seed`` and grows by ``step``, which reads what the last step added."""

    columns: str
    seed: str
    step: str


Body: TypeAlias = "str | Recursion"


def match_statement(d: Dialect, layout: Layout) -> str:
    """All in one."""
    tables, last = match_tables(d, layout)
    parts = []
    for name, body in tables.items():
        if isinstance(body, Recursion):
            name, body = f"{name} ({body.columns})", f"{body.seed}\nUNION ALL\n{body.step}"
        parts.append(f"{name} AS (\n{_indent(body)}\n)")
    return f"WITH{' RECURSIVE' * layout.chains} {_comma(parts)}\n{last}"


def _comma(parts: list[str]) -> str:
    return ",\n".join(parts)


def match_tables(d: Dialect, layout: Layout) -> tuple[dict[str, Body], str]:
    """Return the tables that lead to the result, each read by those after it, and the result."""
    tables: dict[str, Body] = dict(_values(d, layout.references))
    found: list[str] = []
    rests: list[str] = []
    for number, signature in layout.shapes:
        tables[f"unrolled_{number}"] = _of_shape(d, number, signature, layout.chains)
    if layout.others:
        tables["unrolled"] = _unrolled(d, layout)
    for name in [name for name in tables if name.startswith("unrolled")]:
        found.append(f"SELECT event_id, sub_id FROM {name}" + " WHERE final" * layout.chains)
        rests.append(f"SELECT event_id, chain_id FROM {name} WHERE NOT final")
    if layout.starts:
        rests.append("SELECT DISTINCT event_id, CAST(0 AS BIGINT) AS chain_id FROM path_value")
    if layout.chains and rests:
        tables["equal"] = _equal(d, rests)
        tables["other"] = _other(d)
        found.append("SELECT event_id, chain_id AS sub_id FROM equal WHERE final")
        found.append("SELECT event_id, chain_id AS sub_id FROM other WHERE final")
    if not found:
        found.append("SELECT event_id, CAST(0 AS BIGINT) AS sub_id FROM path_value WHERE 1 = 0")
    tables["candidate"] = "\nUNION ALL\n".join(found)
    result = "candidate"
    if layout.branches:
        tables["met"] = _met(d, layout.references)
        tables["matched"] = (
            "SELECT event_id, sub_id FROM candidate WHERE sub_id NOT IN (SELECT sub_id FROM query_branch_point)\n"
            "UNION ALL\nSELECT event_id, sub_id FROM met"
        )
        result = "matched"
    if layout.alternatives:
        last = (
            f"SELECT DISTINCT m.event_id, coalesce(a.number, m.sub_id) AS sub_id\nFROM {result} m\n"
            "LEFT JOIN query_alternative a ON a.sub_id = m.sub_id"
        )
    else:
        last = f"SELECT event_id, sub_id FROM {result}"
    return _used(tables, last), last


def _used(tables: dict[str, Body], last: str) -> dict[str, Body]:
    """Those that the result needs: databases complain of none too many, but people read them."""
    kept: list[str] = []
    text = last
    for name, body in reversed(tables.items()):
        if name in text:
            kept.append(name)
            text += body if isinstance(body, str) else body.seed + body.step
    return {name: tables[name] for name in reversed(kept)}


def _indent(text: str) -> str:
    return "\n".join("    " + line for line in text.split("\n"))


def _values(d: Dialect, references: bool) -> Iterator[tuple[str, str]]:
    yield (
        "path_value",
        (
            "SELECT s.event_id, p.linear_path_id, s.tagpath_id, s.idpath, s.value, s.number\n"
            "FROM sax_parse_result s JOIN path_match p ON p.tagpath_id = s.tagpath_id"
        ),
    )
    columns = ", ".join(f"{text} AS {name}" for name, text in aggregates(d, "TRUE").items())
    yield (
        "path_summary",
        (f"SELECT event_id, linear_path_id, {columns}\nFROM path_value GROUP BY event_id, linear_path_id"),
    )
    yield (
        "path_equal",
        (
            f"SELECT DISTINCT event_id, linear_path_id, '=' AS op, value, CAST(0 AS {d.double}) AS number\n"
            "FROM path_value WHERE value IS NOT NULL\nUNION ALL\n"
            "SELECT DISTINCT event_id, linear_path_id, '==' AS op, '' AS value, number\n"
            "FROM path_value WHERE number IS NOT NULL" + _enriched(d) * references
        ),
    )


def _enriched(d: Dialect) -> str:
    """Return rows for reference data (§3.1): the columns that have a value of the message are values of it too."""
    return (
        f"\nUNION ALL\nSELECT DISTINCT v.event_id, v.linear_path_id, '{IN}' AS op, r.reference AS value,"
        f" CAST(0 AS {d.double}) AS number\n"
        f"FROM path_value v JOIN reference_value r ON {d.same.format(a='r.value', b='v.value')}"
    )


def aggregates(d: Dialect, condition: str) -> dict[str, str]:
    """Return aggregates of a path's values that predicates test, over the rows of a group that meet a condition."""
    only = "" if condition == "TRUE" else f" FILTER (WHERE {condition})"
    return {
        "min_number": f"min(number){only}",
        "max_number": f"max(number){only}",
        "min_value": f"min(value){only}",
        "max_value": f"max(value){only}",
        "no_number": f"bool_or(value IS NOT NULL AND number IS NULL){only}",
        "all_values": d.collect.format(value="value") + only,
        "all_numbers": d.collect.format(value="number") + only,
        "present": f"count(*){only}",
    }


def _tests(d: Dialect, s: str, value: str, number: str) -> dict[str, str]:
    """Per operator whether it holds for some node of a path: ``s`` comes before the names of its aggregates."""
    return {
        "=": d.has.format(list=f"{s}all_values", element=value),
        "==": d.has.format(list=f"{s}all_numbers", element=number),
        "!=": f"({s}min_value <> {value} OR {s}max_value <> {value})",
        "!==": f"({s}no_number OR {s}min_number <> {number} OR {s}max_number <> {number})",
        "<": f"{s}min_number < {number}",
        "<=": f"{s}min_number <= {number}",
        ">": f"{s}max_number > {number}",
        ">=": f"{s}max_number >= {number}",
        EXISTS: f"{s}present > 0",
    }


_USES = {
    "=": ("all_values",), "==": ("all_numbers",), "!=": ("min_value", "max_value"), "<": ("min_number",),
    "!==": ("no_number", "min_number", "max_number"), "<=": ("min_number",), ">": ("max_number",),
    ">=": ("max_number",), EXISTS: ("present",),
}  # fmt: skip


def _case(tests: dict[str, str], op: str) -> str:
    return f"CASE {op} " + " ".join(f"WHEN '{name}' THEN {text}" for name, text in tests.items()) + " END"


def _node_test(q: str, v: str) -> str:
    """Whether a predicate holds for one node."""
    tests = {
        "=": f"{v}.value = {q}.value",
        "==": f"{v}.number = {q}.number",
        "!=": f"{v}.value <> {q}.value",
        "!==": f"({v}.value IS NOT NULL AND ({v}.number IS NULL OR {v}.number <> {q}.number))",
        **{op: f"{v}.number {op} {q}.number" for op in ("<", "<=", ">", ">=")},
        EXISTS: "TRUE",
    }
    return _case(tests, f"{q}.op")


def _equal(d: Dialect, seeds: Sequence[str]) -> Recursion:
    """Return the first stage: equalities, until a chain ends or goes on with other predicates. A chain has
    one way to each of its predicates, and a message one row for each path and value: nothing comes twice."""
    seed = _indent("\nUNION ALL\n".join(seeds))
    return Recursion(
        "event_id, chain_id, final",
        f"SELECT event_id, chain_id, FALSE AS final FROM (\n{seed}\n) AS start",
        "SELECT e.event_id, q.chain_id, q.final\nFROM equal e\n"
        "JOIN path_equal v ON v.event_id = e.event_id\n"
        "JOIN query_predicate q ON q.pre_id = e.chain_id AND q.linear_path_id = v.linear_path_id AND q.op = v.op\n"
        f"    AND {d.same.format(a='q.value', b='v.value')} AND q.number = v.number\n"
        "WHERE NOT e.final",
    )


def _other(d: Dialect) -> Recursion:
    test = _case(_tests(d, "v.", "q.value", "q.number"), "q.op")
    return Recursion(
        "event_id, chain_id, final",
        "SELECT event_id, chain_id, final FROM equal WHERE NOT final",
        "SELECT o.event_id, q.chain_id, q.final\nFROM other o\n"
        f"JOIN query_predicate q ON q.pre_id = o.chain_id AND q.op NOT IN {_EQUAL}\n"
        "JOIN path_summary v ON v.event_id = o.event_id AND v.linear_path_id = q.linear_path_id\n"
        f"WHERE NOT o.final AND {test}",
    )


def signature_of(tests: Sequence[tuple[int, str]]) -> str:
    """Paths and operators of an unrolled row."""
    return " ".join(f"{path}{op}" for path, op in tests)


def parts_of(signature: str) -> list[tuple[int, str]]:
    parts = []
    for part in signature.split():
        digits = len(part) - len(part.lstrip("0123456789"))
        parts.append((int(part[:digits]), part[digits:]))
    return parts


def _of_shape(d: Dialect, number: int, signature: str, chains: bool) -> str:
    """Rows of one shape: the values that it asks for side by side, one row per message, and one join (§4.3: the self
    cross product of the message comes before the look-up)."""
    parts = parts_of(signature)
    lead = parts[0] if parts[0][1] in EQUALITIES else None
    columns: list[str] = []
    conditions = [f"u.shape = {number}"]
    for i, (path, op) in enumerate(parts, 1):
        if lead is not None and i == 1:
            conditions.append("u.first_id = m.first_id")
            continue
        every = aggregates(d, f"linear_path_id = {path}")
        columns += [f"{every[name]} AS p{i}_{name}" for name in _USES[op]]
        conditions.append(_tests(d, f"m.p{i}_", f"u.value{i}", f"u.number{i}")[op])
    paths = ", ".join(map(str, sorted({path for path, _ in (parts if lead is None else parts[1:])})))
    pivot = ""
    if columns:
        pivot = f"SELECT event_id, {', '.join(columns)}\nFROM path_value WHERE linear_path_id IN ({paths})"
        pivot += "\nGROUP BY event_id"
    if lead is None:
        source = pivot
    else:
        path, op = lead
        column = "value" if op == "=" else "number"
        same = d.same.format(a="f.value", b="v.value") if op == "=" else "f.number = v.number"
        source = (
            "SELECT DISTINCT v.event_id, f.first_id\nFROM path_value v\n"
            f"JOIN unroll_first f ON f.linear_path_id = {path} AND f.op = '{op}' AND {same}\n"
            f"WHERE v.linear_path_id = {path} AND v.{column} IS NOT NULL"
        )
        if pivot:
            source = f"SELECT f.first_id, r.*\nFROM (\n{_indent(source)}\n) AS f JOIN (\n{_indent(pivot)}\n) AS r"
            source += " ON r.event_id = f.event_id"
    joined = "\n    AND ".join(conditions)
    more = ", u.chain_id, u.final" if chains else ""
    return f"SELECT m.event_id, u.sub_id{more}\nFROM (\n{_indent(source)}\n) AS m\nJOIN predicate_unroll u ON {joined}"


def _unrolled(d: Dialect, layout: Layout) -> str:
    """Rows of any shape: the first predicate by a look-up, each of the others by one on the message."""
    own = ", ".join(str(number) for number, _ in layout.shapes)
    others = f"u.shape NOT IN ({own})" if own else "TRUE"
    equal = (
        "SELECT v.event_id, u.* FROM path_equal v\n"
        "JOIN unroll_first f ON f.linear_path_id = v.linear_path_id AND f.op = v.op"
        f" AND {d.same.format(a='f.value', b='v.value')} AND f.number = v.number\n"
        f"JOIN predicate_unroll u ON u.first_id = f.first_id\nWHERE {others}"
    )
    test = _case(_tests(d, "v.", "u.value1", "u.number1"), "u.op1")
    other = (
        "SELECT v.event_id, u.* FROM path_summary v\n"
        "JOIN predicate_unroll u ON u.path1 = v.linear_path_id AND u.first_id = 0\n"
        f"WHERE {others} AND {test}"
    )
    body = f"{equal}\nUNION ALL\n{other}"
    for i in range(2, layout.unroll + 1):
        test = _case(_tests(d, "v.", f"u.value{i}", f"u.number{i}"), f"u.op{i}")
        # a row that has no such predicate passes: its path is 0
        body = (
            f"SELECT u.* FROM (\n{_indent(body)}\n) AS u\n"
            f"LEFT JOIN path_summary v ON v.event_id = u.event_id AND v.linear_path_id = u.path{i}\n"
            f"WHERE u.path{i} = 0 OR {test}"
        )
    return f"SELECT event_id, sub_id, chain_id, final FROM (\n{_indent(body)}\n) AS u"


def _met(d: Dialect, references: bool) -> str:
    join = (
        f"LEFT JOIN reference_value r ON b.op = '{IN}' AND r.reference = b.value"
        f" AND {d.same.format(a='r.value', b='v.value')}\n"
    )
    refers = f"WHERE b.op = '{IN}' AND r.value IS NOT NULL OR " if references else "WHERE "
    nodes = d.nodes.format(positions="t.bp_position", idpath="v.idpath")
    rows = (
        f"SELECT c.event_id, c.sub_id, b.branch, t.points, {nodes} AS nodes\nFROM candidate c\n"
        "JOIN query_branch_point b ON b.sub_id = c.sub_id\n"
        "JOIN path_value v ON v.event_id = c.event_id AND v.linear_path_id = b.linear_path_id\n"
        "JOIN tagpath_br_info t ON t.tagpath_id = v.tagpath_id AND t.br_info_id = b.br_info_id\n"
        f"{join * references}{refers}{_node_test('b', 'v')}"
    )
    grouped = (
        "SELECT event_id, sub_id, "
        f"{d.gather.format(value='branch').replace('::TEXT', '::BIGINT')} AS branches, "
        f"{d.gather.format(value='points')} AS points, {d.gather.format(value='nodes')} AS nodes\n"
        f"FROM (\n{_indent(rows)}\n) AS binding GROUP BY event_id, sub_id"
    )
    return f"SELECT event_id, sub_id FROM (\n{_indent(grouped)}\n) AS branch WHERE {d.br_pred}(branches, points, nodes)"
