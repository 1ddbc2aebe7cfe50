"""Reference data: tables that a subscription may compare a value with, ``/order/customer = $vip.id``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.errors import OptionError, QueryError, Span

if TYPE_CHECKING:
    from twigcast.relational.database import Database

# Begins the string that stands in for a column while a query is read.
REFERENCE = "\ue100reference "
_NAME = r"[A-Za-z_]\w*"
_REFERENCE = re.compile(rf"""("[^"]*"|'[^']*')|\$({_NAME}(?:\.{_NAME})?)""", re.ASCII)


def as_literals(query: str, known: Collection[str]) -> str:
    """Return the query with a string in place of each ``$table.column``."""

    def literal(found: re.Match[str]) -> str:
        quoted, name = found.groups()
        if quoted is not None:
            return str(quoted)
        if name not in known:
            near = get_close_matches(name, known, n=1)
            there = f"did you mean ${near[0]}?" if near else f"there is ${', $'.join(sorted(known))}"
            raise QueryError(
                "unknown-reference",
                f"there is no reference data ${name}",
                hint=there if known else "register a table, then write $table.column",
                source=query,
                span=Span(found.start(), found.end()),
            )
        return f"'{REFERENCE}{name}'"

    return _REFERENCE.sub(literal, query)


def as_written(error: QueryError, query: str) -> QueryError:
    """Return an error in the query that ``as_literals`` has made as an error in the query as it was written."""
    if error.source is None or error.source == query or error.span is None:
        return error
    # where each character of the one query stands in the other: those of a literal at the whole reference
    starts: list[int] = []
    ends: list[int] = []
    at = 0
    for found in _REFERENCE.finditer(query):
        if found[2] is not None:
            starts += range(at, found.start())
            ends += range(at + 1, found.start() + 1)
            literal = len(f"'{REFERENCE}{found[2]}'")
            starts += [found.start()] * literal
            ends += [found.end()] * literal
            at = found.end()
    starts += range(at, len(query) + 1)
    ends += range(at + 1, len(query) + 1)
    start, end = error.span.start, error.span.end
    span = Span(starts[min(start, len(starts) - 1)], ends[end - 1] if 0 < end <= len(ends) else len(query))
    text = re.sub(rf"'?{REFERENCE}([\w.]+)'?", r"$\1", error.text)
    return QueryError(error.code, text, hint=error.hint, source=query, span=span)


def named(query: str) -> set[str]:
    """Return the columns that ``as_literals`` has put into a query."""
    return set(re.findall(rf"'{REFERENCE}([^']*)'", query))


def used(conjunctions: Iterable[Iterable[Any] | None]) -> set[str]:
    """Return the columns that predicates compare with by ``=``. In other comparisons they have become numbers."""
    return {row.value for rows in conjunctions for row in rows or () if row.op == "in"}


def columns_of(name: str, data: Any, database: Database) -> dict[str, pa.Array]:
    """``name.column`` -> the distinct values, as text."""
    if not re.fullmatch(_NAME, name, re.ASCII):
        raise OptionError("bad-reference", f"{name!r} is no name for reference data", hint="use letters, digits and _")
    table = _table(data, database)
    columns: dict[str, pa.Array] = {}
    for column in table.column_names:
        # what is no name, no query could write
        if re.fullmatch(_NAME, column, re.ASCII) and _has_text(table.column(column).type):
            columns[f"{name}.{column}"] = pc.drop_null(pc.unique(table.column(column).cast(pa.string())))
    if not columns:
        raise OptionError("bad-reference", f"the table {name!r} has no columns that a query could name")
    return columns


def _has_text(kind: pa.DataType) -> bool:
    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_null(kind))


def _table(data: Any, database: Database) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if hasattr(data, "toArrow"):
        return data.toArrow()
    if isinstance(data, str) and data.startswith("table:"):
        source = data.removeprefix("table:")
        if not re.fullmatch(rf"{_NAME}(\.{_NAME})?", source, re.ASCII):
            raise OptionError("bad-reference", f"{source!r} is no name of a table")
        return database.table(source)
    if isinstance(data, (str, Path)):
        return _file(Path(data))
    if hasattr(data, "columns"):
        return pa.Table.from_pandas(data, preserve_index=False)
    raise OptionError("bad-reference", f"reference data is a file or a table, not {type(data).__name__}")


def _file(path: Path) -> pa.Table:
    try:
        if path.suffix == ".parquet":
            from pyarrow import parquet

            return parquet.read_table(path)
        from pyarrow import csv

        with csv.open_csv(path) as reader:
            names = reader.schema.names
        # as text: 007 is not 7
        options = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
        return csv.read_csv(path, convert_options=options)
    except OSError as error:
        raise OptionError("unreadable", f"{path}: {error.strerror or error}") from error
    except pa.ArrowInvalid as error:
        raise OptionError("bad-reference", f"{path}: {str(error).splitlines()[0]}") from error
