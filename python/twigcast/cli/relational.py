"""``twigcast match`` and ``twigcast explain`` with ``--engine relational``, and ``twigcast rules``: subscriptions in a
database."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import click
import pyarrow as pa

from twigcast.cli.inputs import Message, as_json, batches, expand, printable, read
from twigcast.cli.options import OneOf, namespace_options
from twigcast.cli.progress import Progress
from twigcast.engine import Subscription
from twigcast.errors import OptionError, QueryError, TwigcastError
from twigcast.limits import Limits
from twigcast.relational.cost import Cost
from twigcast.relational.engine import RelationalEngine
from twigcast.relational.plans import AUTO, BUCKETS, PLANS, UNROLL
from twigcast.subscriptions import SubscriptionFile, SubscriptionFileError, read_subscriptions

F = TypeVar("F", bound=Callable[..., Any])
ENGINES = ("automaton", "relational")
TABLE_ROWS = 1_000


def database_options(command: F) -> F:
    """Options of the engine; the command gets them as keyword arguments of the same names."""
    plan = click.option(
        "--plan",
        type=OneOf((*PLANS, AUTO)),
        help=f"How predicates are laid out: {', '.join(PLANS)}; or auto, by estimated cost.  [default: auto]",
    )
    unroll = click.option(
        "--unroll", type=click.IntRange(1, 50), default=UNROLL, show_default=True, help="Predicates in an unrolled row."
    )
    buckets = click.option(
        "--buckets",
        type=click.IntRange(1, 10_000),
        default=BUCKETS,
        show_default=True,
        help="Parts of a range of constants.",
    )
    reference = click.option(
        "--reference",
        "references",
        metavar="NAME=FILE",
        multiple=True,
        help="A CSV or Parquet file that queries may compare with: path = $NAME.column. May be repeated.",
    )
    return plan(unroll(buckets(reference(command))))


def engine_options(command: F) -> F:
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
    return engine(database(database_options(command)))


def check_options(engine: str, **options: Any) -> None:
    for name, value in options.items():
        if value and engine != "relational":
            raise click.UsageError(f"--{name} belongs to --engine relational")


def _register(engine: RelationalEngine, references: tuple[str, ...]) -> None:
    for reference in references:
        name, equals, file = reference.partition("=")
        if not (name and equals and file):
            raise click.UsageError(f"{reference!r} is not of the form NAME=FILE")
        engine.register(name, file)


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
    **plan: Any,
) -> None:
    """As ``twigcast match`` does, with the same output."""
    if result != "match":
        raise click.UsageError(f"the relational engine tells which messages match; it gives no {result}")
    if subscriptions is None and database is None:
        raise click.UsageError("Missing option '-s' / '--subscriptions', or a --database that has some.")
    file = None if subscriptions is None else read_subscriptions(subscriptions)
    engine = RelationalEngine(database, namespaces=namespaces, limits=limits, **plan)
    try:
        _register(engine, references)
        places = None if file is None else synchronise(engine, file)
        if file is None and len(engine) == 0:
            hint = "twigcast rules load puts some there, or name a file with -s"
            raise OptionError("no-subscriptions", "the database has no subscriptions", hint=hint)
        names = list(expand(messages))
        progress = Progress(len(names))
        output = Table(engine) if format == "table" else Jsonl(engine, progress)
        errors = matched = 0
        for batch in batches(read(names)):
            found, wrong = _match(engine, batch, places)
            for row, text in wrong:
                progress.say(f"{printable(batch[row].name)}:{text}")
            errors += len(wrong)
            matched += len(found)
            output.add([(batch[row].name, number) for row, number in found])
            progress.advance(len(batch))
        progress.clear()
        output.close()
    finally:
        engine.close()
    ctx.exit(2 if errors else 0 if matched else 1)


def _match(
    engine: RelationalEngine, batch: list[Any], places: dict[int, int] | None
) -> tuple[list[tuple[int, int]], list[tuple[int, str]]]:
    """Matches as (row, number of the subscription), and what is wrong with messages, both in order."""
    rows = [row for row, message in enumerate(batch) if isinstance(message, Message)]
    wrong = [(row, f" unreadable: {m.reason}") for row, m in enumerate(batch) if not isinstance(m, Message)]
    table, errors = engine.match_rows(pa.array([batch[row].data for row in rows], pa.large_binary()))
    for row, error in zip(rows, errors.to_pylist(), strict=False):
        if error is not None:
            wrong.append((row, f"{error['line']}:{error['column']}: {error['code']}: {error['text']}"))
    events, numbers = table.column("event_id").to_pylist(), table.column("number").to_pylist()
    found = [(rows[event], number) for event, number in zip(events, numbers, strict=True)]
    if places is not None:
        found = [pair for pair in found if pair[1] in places]
        found.sort(key=lambda pair: (pair[0], places[pair[1]]))
    return found, sorted(wrong)


def synchronise(engine: RelationalEngine, file: SubscriptionFile) -> dict[int, int]:
    """Brings the file's subscriptions into the database, as far as they are not there; numbers -> places in the file.

    What else the database has stays there, but is not asked for.
    """
    if len(engine) == 0:
        enter(engine, file, file.subscriptions)
    else:
        known = {s.id: s for s in engine.subscriptions()}
        changed = [s for s in file.subscriptions if s.id in known and not _same(s, known[s.id])]
        new = [s for s in file.subscriptions if s.id not in known]
        for s in changed:
            engine.check(s)
        if changed:
            engine.remove_many([s.id for s in changed])
        enter(engine, file, changed + new)
    places = {s.id: place for place, s in enumerate(file.subscriptions)}
    return {number: places[id] for number, id in engine.numbers() if id in places}


def _same(a: Subscription, b: Subscription) -> bool:
    return (a.query, dict(a.namespaces or {}), a.default_namespace) == (
        b.query,
        dict(b.namespaces or {}),
        b.default_namespace,
    )


def enter(engine: RelationalEngine, file: SubscriptionFile, subscriptions: list[Subscription]) -> None:
    try:
        engine.add_many(subscriptions)
    except (QueryError, OptionError):
        # only now is it worth going line by line: to tell all that is wrong, not only what came first
        lines = {s.id: line for s, line in zip(file.subscriptions, file.lines, strict=True)}
        problems: list[tuple[int, TwigcastError]] = []
        for s in subscriptions:
            try:
                engine.check(s)
            except (QueryError, OptionError) as error:
                problems.append((lines[s.id], error))
        if not problems:
            raise
        raise SubscriptionFileError(file.name, problems) from None


class Jsonl:
    def __init__(self, engine: RelationalEngine, progress: Progress) -> None:
        self._engine = engine
        self._progress = progress

    def add(self, found: list[tuple[str, int]]) -> None:
        if found and sys.stdout.isatty():
            self._progress.clear()
        ids = self._engine.ids_of([number for _, number in found])
        for (name, _), id in zip(found, ids, strict=True):
            click.echo(f'{{"message": {as_json(name)}, "subscription": {as_json(id)}}}')

    def close(self) -> None:
        sys.stdout.flush()


class Table:
    """For people: the first matches with their queries, and how many more there are."""

    def __init__(self, engine: RelationalEngine) -> None:
        self._engine = engine
        self._rows: list[tuple[str, int]] = []
        self._matches = 0

    def add(self, found: list[tuple[str, int]]) -> None:
        self._rows += found[: TABLE_ROWS - len(self._rows)]
        self._matches += len(found)

    def close(self) -> None:
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text

        if not self._rows:
            click.echo("no matches")
            return
        table = RichTable(box=None, pad_edge=False)
        for heading in ("message", "subscription", "query"):
            table.add_column(heading, overflow="fold")
        numbers = [number for _, number in self._rows]
        ids, queries = self._engine.ids_of(numbers), self._engine.queries_of(numbers)
        for (name, number), id in zip(self._rows, ids, strict=True):
            table.add_row(*(Text(printable(str(text))) for text in (name, id, queries[number])))
        Console().print(table)
        if self._matches > len(self._rows):
            click.echo(f"… and {self._matches - len(self._rows):,} more; --format jsonl has all of them")


# -- explain


def explain_relational(
    query: str,
    subscriptions: str | None,
    format: str,
    dialect: str,
    namespaces: dict[str, str],
    database: str | None,
    references: tuple[str, ...],
    **plan: Any,
) -> None:
    """The predicates of the query, what each plan would cost, and the SQL."""
    engine = RelationalEngine(database, namespaces=namespaces, **plan)
    try:
        _register(engine, references)
        conjunctions = engine.compile(Subscription(0, query, dialect=dialect))
        if subscriptions is not None:
            synchronise(engine, read_subscriptions(subscriptions))
        if len(engine) == 0:
            engine.add(query, dialect=dialect)
        costs, statement = engine.costs(), engine.statement()
        if format == "json":
            click.echo(as_json(_as_dict(query, conjunctions, engine, costs, statement)))
            return
        for heading, lines in _sections(query, conjunctions, engine, costs, statement):
            for i, line in enumerate(lines):
                click.echo(f"{heading if i == 0 else '':<12}{line}".rstrip())
    finally:
        engine.close()


def _predicate(row: Any) -> str:
    constant = "" if row.op == "exists" else f" {as_json(row.value) if row.op in ('=', '!=') else f'{row.number:g}'}"
    points = "".join(f" bp#{number}={step}" for number, step in row.points)
    return f"{row.path} {row.op}{constant}" + (f"   {points.strip()}" if points else "")


def _sections(
    query: str, conjunctions: list[list[Any]], engine: RelationalEngine, costs: list[Cost], statement: str
) -> Iterator[tuple[str, Iterable[str]]]:
    yield "query", [query]
    for i, rows in enumerate(conjunctions, 1):
        yield "predicates" if len(conjunctions) == 1 else f"or {i}", [_predicate(row) for row in rows]
    if not conjunctions:
        yield "predicates", ["none: the query never matches"]
    yield "plan", [engine.plan.name]
    x = costs[0].parameters
    yield "parameters", [f"N = {x.n:g}, b = {x.b:.3g}, m = {x.m:g}, p = {x.p:g}, s = {x.s:.3g}"]
    yield "costs", [f"{cost.plan:<13} {cost.cost:,.1f}" for cost in costs]
    yield "sql", statement.split("\n")


def _as_dict(
    query: str, conjunctions: list[list[Any]], engine: RelationalEngine, costs: list[Cost], statement: str
) -> dict[str, Any]:
    return {
        "engine": "relational",
        "query": query,
        "predicates": [
            [{"path": r.path, "op": r.op, "value": _constant(r), "points": [list(p) for p in r.points]} for r in rows]
            for rows in conjunctions
        ],
        "plan": engine.plan.name,
        "costs": {cost.plan: cost.cost for cost in costs},
        "sql": statement,
    }


def _constant(row: Any) -> str | float | None:
    return None if row.op == "exists" else row.value if row.op in ("=", "!=") else row.number


# -- rules


RULES = """\b
Examples:
  twigcast rules load --database duckdb:///rules.db -s subscriptions.txt
  twigcast match --engine relational --database duckdb:///rules.db messages/
  twigcast rules delete --database duckdb:///rules.db 17 18
"""


@click.group(epilog=RULES)
def rules() -> None:
    """Keep subscriptions in a database, for `twigcast match --engine relational --database URL`."""


_database = click.option(
    "--database", required=True, metavar="URL", help="duckdb:///file.db or postgresql://user@host/name."
)


@rules.command()
@_database
@click.option("-s", "--subscriptions", required=True, metavar="FILE", help="The subscriptions; - for stdin.")
@database_options
@namespace_options
def load(
    database: str,
    subscriptions: str,
    namespaces: tuple[tuple[str, str], ...],
    references: tuple[str, ...],
    **plan: Any,
) -> None:
    """Add the subscriptions of a file: all of them, or none if one cannot be accepted."""
    file = read_subscriptions(subscriptions)
    engine = RelationalEngine(database, namespaces=dict(namespaces), **plan)
    try:
        _register(engine, references)
        enter(engine, file, file.subscriptions)
        click.echo(f"{len(file.subscriptions):,} subscriptions added, {len(engine):,} in all; plan {engine.plan.name}")
    finally:
        engine.close()


@rules.command("list")
@_database
def list_(database: str) -> None:
    """Print the subscriptions as JSON Lines, in the order in which they came."""
    engine = RelationalEngine(database)
    try:
        for s in engine.subscriptions():
            values: dict[str, Any] = {"id": s.id, "query": s.query}
            if s.namespaces:
                values["namespaces"] = dict(s.namespaces)
            if s.default_namespace:
                values["default_namespace"] = s.default_namespace
            click.echo(as_json(values))
    finally:
        engine.close()


@rules.command()
@_database
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def delete(database: str, ids: tuple[str, ...]) -> None:
    """Delete subscriptions: all that are named, or none if one is not there."""
    engine = RelationalEngine(database)
    try:
        known = {str(id): id for _, id in engine.numbers()}
        engine.remove_many([known.get(id, id) for id in dict.fromkeys(ids)])
        click.echo(f"{len(set(ids)):,} subscriptions deleted, {len(engine):,} left")
    finally:
        engine.close()


@rules.command()
@_database
def gc(database: str) -> None:
    """Delete paths and other entries that no subscription uses any more."""
    engine = RelationalEngine(database)
    try:
        for table, count in engine.gc().items():
            click.echo(f"{table:<22}{count:>10,}")
    finally:
        engine.close()
