"""``twigcast match`` and ``twigcast explain`` with ``--engine relational``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from twigcast.cli.inputs import Message, as_json, batches, decompressed, expand, read
from twigcast.cli.matches import Output, output_of
from twigcast.cli.options import OneOf
from twigcast.cli.queries import read_file, warn_of_never
from twigcast.common.arrow import pa
from twigcast.engine import Subscription, SubscriptionId
from twigcast.engine.files import SHOWN, SubscriptionFile, SubscriptionFileError, check_each
from twigcast.engine.results import Match
from twigcast.errors import OptionError, QueryError, TwigcastError
from twigcast.lang.kinds import described, kind_of
from twigcast.limits import Limits
from twigcast.rows import error_of_row

if TYPE_CHECKING:
    from twigcast.relational.engine import RelationalEngine

F = TypeVar("F", bound=Callable[..., Any])
ENGINES = ("automaton", "relational")


def reference_option(command: F) -> F:
    """Add the option for reference data."""
    return click.option(
        "--reference",
        "references",
        metavar="NAME=FILE",
        multiple=True,
        help="A CSV or Parquet file that queries may compare with: path = $NAME.column. May be repeated.",
    )(command)


def engine_options(command: F) -> F:
    """Add the options of the engine; the command gets them as keyword arguments of the same names."""
    engine = click.option(
        "--engine",
        type=OneOf(ENGINES),
        default=ENGINES[0],
        show_default=True,
        help="What matches: the automaton in memory, or joins in a database (docs/relational.md).",
    )
    database = click.option(
        "--database",
        metavar="URL",
        help="For the relational engine: duckdb:///file.db, postgresql://… or spark.  [default: DuckDB in memory]",
    )
    return engine(database(reference_option(command)))


def check_options(engine: str, **options: Any) -> None:
    for name, value in options.items():
        if value and engine != "relational":
            raise click.UsageError(f"--{name} belongs to --engine relational")


def register(engine: RelationalEngine, references: tuple[str, ...]) -> None:
    for reference in references:
        name, equals, file = reference.partition("=")
        if not (name and equals and file):
            raise click.UsageError(f"{reference!r} is not of the form NAME=FILE")
        engine.register(name, file)


def _duckdb_file(database: str) -> str | None:
    from twigcast.relational.database import duckdb_file  # `match` imports this module, and mostly needs no database

    return duckdb_file(database)


def stays(database: str | None) -> bool:
    """Whether the tables are there after the command."""
    if database is None or database == "spark":
        return False
    return not database.startswith("duckdb:") or _duckdb_file(database) is not None


def must_exist(database: str | None) -> None:
    """What only reads or removes makes no database: its name would be a mistake."""
    file = _duckdb_file(database) if database is not None and database.startswith("duckdb:") else None
    if file is not None and not Path(file).exists():
        raise OptionError(
            "no-database", f"there is no database {file}, so no subscriptions", hint="twigcast rules load makes one"
        )


def read_filters(subscriptions: str) -> SubscriptionFile:
    """Read the filters of a file. What the relational engine does not have is left out, with a warning for each line:
    transforms, correlations, and filters of one stream, which would get the messages of all streams here."""
    file = read_file(subscriptions)
    kept: list[tuple[Subscription, int]] = []
    problems: list[tuple[int, TwigcastError]] = []
    for s, line in zip(file.subscriptions, file.lines, strict=True):
        if kind_of(s.query) != "filter" or s.stream is not None:
            what = described(s.query) if kind_of(s.query) != "filter" else f"a filter of the stream {s.stream!r}"
            text = f"{what} has no place in the relational engine, which matches filters with all messages"
            problems.append((line, OptionError("not-relational", text, hint="leave --engine relational out")))
            continue
        if s.result != "match":
            click.echo(f"warning: {file.name}:{line}: the relational engine gives matches, no {s.result}", err=True)
        kept.append((replace(s, result="match"), line))
    if problems and not kept:
        raise SubscriptionFileError(file.name, problems)
    for line, error in problems[:SHOWN]:
        click.echo(f"warning: {file.name}:{line}: left out: {error.text}", err=True)
    if len(problems) > SHOWN:
        click.echo(f"warning: {file.name}: {len(problems) - SHOWN:,} more are left out", err=True)
    return SubscriptionFile(file.name, [s for s, _ in kept], [line for _, line in kept], file.paused)


def match_relational(
    ctx: click.Context,
    subscriptions: str | None,
    messages: tuple[str, ...],
    format: str,
    result: str,
    limits: Limits,
    namespaces: dict[str, str],
    database: str | None,
    references: tuple[str, ...],
) -> None:
    """Match messages as ``twigcast match`` does, with the same output."""
    if result != "match":
        raise click.UsageError(f"the relational engine tells which messages match; it gives no {result}")
    if subscriptions is None and database is None:
        raise click.UsageError("Missing option '-s' / '--subscriptions', or a --database that has some.")
    file = None if subscriptions is None else read_filters(subscriptions)
    if file is None:
        must_exist(database)
    from twigcast.relational.engine import RelationalEngine

    with closing(RelationalEngine(database, namespaces=namespaces, limits=limits)) as engine:
        register(engine, references)
        places = None if file is None else synchronise(engine, file)
        if file is not None:
            warn_of_never(file, namespaces)
        if file is None and len(engine) == 0:
            hint = "twigcast rules load puts some there, or name a file with -s"
            raise OptionError("no-subscriptions", "the database has no subscriptions", hint=hint)
        names = list(expand(messages))
        numbers: dict[SubscriptionId, int] = {}

        def queries(ids: Sequence[SubscriptionId]) -> dict[SubscriptionId, str]:
            found = engine.queries_of([numbers[id] for id in ids])
            return {id: found[numbers[id]] for id in ids}

        output = output_of(format, None, len(names), queries)
        for batch in batches(decompressed(read(names), limits.max_bytes), output.unreadable):
            found = _match(engine, batch, places, output)
            ids = engine.ids_of([number for _, number in found])
            for (row, number), id in zip(found, ids, strict=True):
                numbers[id] = number
                output.add(Match(batch[row].name, id))
            output.progress.advance(len(batch))
        status = output.finish()
    ctx.exit(status)


def _match(
    engine: RelationalEngine, batch: list[Message], places: dict[int, int] | None, output: Output
) -> list[tuple[int, int]]:
    """Return matches as (row, number of the subscription), in order, and report errors."""
    table, refused = engine.match_rows(pa.array([message.data for message in batch], pa.large_binary()))
    for message, error in zip(batch, refused.to_pylist(), strict=False):
        if error is not None:
            output.refused(message.name, error_of_row(error))
    found = list(zip(table.column("event_id").to_pylist(), table.column("number").to_pylist(), strict=True))
    if places is not None:
        found = [pair for pair in found if pair[1] in places]
        found.sort(key=lambda pair: (pair[0], places[pair[1]]))
    return found


def synchronise(engine: RelationalEngine, file: SubscriptionFile) -> dict[int, int]:
    """Brings the file's subscriptions into the database, as far as they are not there; numbers -> places in the file.

    What else the database has stays there, but is not asked for.
    """
    if len(engine) == 0:
        enter(engine, file, file.subscriptions)
    else:
        known = {s.id: s for s in engine.subscriptions()}
        changed = [s for s in file.subscriptions if s.id in known and not _same(engine, s, known[s.id])]
        new = [s for s in file.subscriptions if s.id not in known]
        enter(engine, file, changed + new, instead_of=[s.id for s in changed])
    places = {s.id: place for place, s in enumerate(file.subscriptions)}
    return {number: places[id] for number, id in engine.numbers() if id in places}


def _same(engine: RelationalEngine, s: Subscription, stored: Subscription) -> bool:
    asked = s.query, s.default_namespace, s.dialect, engine.declared(s)
    return asked == (stored.query, stored.default_namespace, stored.dialect, dict(stored.namespaces or {}))


def enter(
    engine: RelationalEngine,
    file: SubscriptionFile,
    subscriptions: list[Subscription],
    instead_of: list[SubscriptionId] | None = None,
) -> None:
    try:
        engine.add_many(subscriptions, instead_of=instead_of or ())
    except (QueryError, OptionError):
        # only now is it worth going line by line: to tell all that is wrong, not only what came first
        new = {s.id for s in subscriptions}
        known = {id for _, id in engine.numbers()}.difference(instead_of or ())

        def check(s: Subscription) -> None:
            if s.id in new & known:
                text = f"there is a subscription {s.id!r} in the database already"
                raise OptionError("duplicate-id", text, hint="twigcast rules delete takes it out")
            if s.id in new:
                engine.check(s)

        check_each(file, check)
        raise


# -- explain


def explain_relational(
    query: str,
    subscriptions: str | None,
    dialect: str,
    namespaces: dict[str, str],
    database: str | None,
    references: tuple[str, ...],
) -> tuple[dict[str, Any], list[tuple[str, list[str]]]]:
    """Return the predicates of the query and the SQL: for programs, and for people."""
    if stays(database):
        # to explain is not to change: what is in the database alone is what the query is compared with
        must_exist(database)
        if subscriptions is not None or references:
            raise click.UsageError("with a --database that stays, leave -s and --reference out: explain changes none")
    from twigcast.relational.engine import RelationalEngine

    with closing(RelationalEngine(database, namespaces=namespaces)) as engine:
        register(engine, references)
        conjunctions = engine.compile(Subscription(0, query, dialect=dialect))
        if subscriptions is not None:
            synchronise(engine, read_filters(subscriptions))
        if len(engine) == 0 and stays(database):
            hint = "leave --database out, or let twigcast rules load put some there"
            raise OptionError("no-subscriptions", "the database has no subscriptions", hint=hint)
        if len(engine) == 0:
            engine.add(query, dialect=dialect)
        statement = engine.statement()
    told = {
        "engine": "relational",
        "query": query,
        "predicates": [
            [{"path": r.path, "op": r.op, "value": _constant(r), "points": [list(p) for p in r.points]} for r in rows]
            for rows in conjunctions
        ],
        "sql": statement,
    }
    each = [[_predicate(row) for row in rows] for rows in conjunctions] or [["none: the query never matches"]]
    sections = [
        ("query", [query]),
        *(("predicates" if len(each) == 1 else f"or {i}", lines) for i, lines in enumerate(each, 1)),
        ("sql", statement.split("\n")),
    ]
    return told, sections


def _predicate(row: Any) -> str:
    constant = _constant(row)
    if row.op in ("=", "!="):
        constant = as_json(constant)
    elif not isinstance(constant, str | None):
        constant = f"{constant:g}"
    points = "".join(f" bp#{number}={step}" for number, step in row.points)
    return f"{row.path} {row.op}" + (f" {constant}" if constant is not None else "") + (f"  {points}" if points else "")


def _constant(row: Any) -> str | float | None:
    if row.op == "in":
        return f"${row.value}"
    return None if row.op == "exists" else row.value if row.op in ("=", "!=") else row.number
