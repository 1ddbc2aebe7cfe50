"""The experiments of the relational paper (Tian et al., SIGMOD 2004, §5): stock quotes, and a recursive vocabulary."""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from statistics import median
from time import process_time

import pyarrow as pa

from twigcast.engine import Subscription
from twigcast.papers.experiments import relational_claims as claims
from twigcast.papers.experiments.measure import (
    PROCESSES,
    ROUNDS,
    Say,
    Spread,
    in_fresh_processes,
    measure_rows,
    merged,
    repeated,
    rough,
)
from twigcast.papers.experiments.report import Cell, Plot, Progress, Report, Table, Unit
from twigcast.papers.relational import RelationalEngine
from twigcast.relational.compile import Compiler, Row
from twigcast.relational.duckdb_database import DuckDB

PLANS = ("unroll", "share", "share-bucket")
MESSAGES = 10_000
# The paper gives no number of symbols. Its last row has a hundred matches a message, so there are at most 10,000 of
# them to a million subscriptions. We take about as many as an exchange lists.
SYMBOLS = 3_000
# Of the four ranges of a subscription; the equality has what its number of symbols gives it.
_RANGES = (("price", ">"), ("open", "<"), ("high", ">"), ("volume", ">"))


@dataclass(frozen=True)
class Stocks:
    """Figure 5.1: one equality and four ranges per subscription, chosen so that 10,000 messages give about so many
    notifications."""

    subscriptions: int
    notifications: int
    symbols: int = SYMBOLS

    @property
    def chance(self) -> float:
        """How often a range holds for a message of its symbol."""
        meetings = MESSAGES * self.subscriptions / self.symbols
        return float(min(1.0, self.notifications / meetings) ** (1 / len(_RANGES)))

    def queries(self) -> Iterator[str]:
        """Return the subscriptions."""
        chance = Random(f"subscriptions {self.subscriptions} {self.notifications}").random
        wanted = self.chance
        width = 2 * min(wanted, 1 - wanted)
        for _ in range(self.subscriptions):
            terms = [f'symbol = "S{int(chance() * self.symbols)}"']
            for name, op in _RANGES:
                # spread as widely as the mean allows: holds with the chance wanted, on average
                bound = 1000 * (wanted + (chance() - 0.5) * width)
                terms.append(f"{name} {op} {bound if op == '<' else 1000 - bound:.2f}")
            yield f"/stock[{' and '.join(terms)}]"

    def messages(self, count: int) -> Iterator[bytes]:
        """Return quotes with random values."""
        chance = Random("messages").random
        for _ in range(count):
            values = {name: f"{1000 * chance():.2f}" for name in ("price", "open", "change", "low", "high", "volume")}
            inner = "".join(f"<{name}>{value}</{name}>" for name, value in values.items())
            yield f"<stock><symbol>S{int(chance() * self.symbols)}</symbol>{inner}</stock>".encode()

    def batch(self, count: int = MESSAGES) -> pa.Array:
        """Return messages as a column."""
        return pa.array(list(self.messages(count)), pa.binary())


@dataclass(frozen=True)
class Element:
    """An element of a vocabulary that nests in itself."""

    name: str
    values: dict[str, str]
    """Values by path from here: an attribute, text, and small elements."""
    children: list[Element]

    def xml(self) -> str:
        """Return the element as text."""
        inner = "".join(f"<{name}>{value}</{name}>" for name, value in self.values.items() if name in _SMALL)
        inner += "".join(child.xml() for child in self.children)
        return f'<{self.name} type="{self.values["@type"]}">{self.values["text()"]}{inner}</{self.name}>'


# Which elements may be in which: recursive, as in the paper's NASA files, and with as few tag paths.
_INSIDE = {
    "dataset": ("title", "author", "reference", "reference"),
    "reference": ("source", "source", "title"),
    "source": ("other", "other", "dataset"),
    "other": ("title", "author", "reference"),
    "title": (),
    "author": (),
}
_SMALL = ("name", "date", "year")


def _element(random: Random, name: str = "dataset", depth: int = 0) -> Element:
    values = {"@type": _word(random), "text()": _word(random)}
    values |= {name: _word(random) for name in _SMALL if random.random() < 0.7}
    below = random.choices(_INSIDE[name], k=random.randint(1, 3)) if depth < 5 and _INSIDE[name] else []
    return Element(name, values, [_element(random, one, depth + 1) for one in below])


def _word(random: Random) -> str:
    return str(random.randint(0, 5000))


@dataclass(frozen=True)
class _Term:
    """A condition of a twig: where its value lies in the message it was made from, and how the path is written."""

    place: tuple[str, ...]
    written: str
    op: str

    def text(self, value: str) -> str:
        """Return the condition with a value. Ranges are wide enough to hold for it."""
        if self.op == "=":
            return f'{self.written} = "{value}"'
        return f"{self.written} {self.op} {int(value) + (100 if self.op == '<' else -100)}"


@dataclass(frozen=True)
class Nested:
    """§5.2: twigs of two to ten branches, seven on average. Four of five branches compare by equality. All values of a
    twig are those of some message in these places.

    ``per_shape`` twigs differ only in their values, so that a set of the paper's size can be compiled in minutes. A set
    begins with all smaller ones.
    """

    subscriptions: int
    per_shape: int = 10

    def queries(self) -> Iterator[str]:
        """Return the subscriptions."""
        random = Random("nested")
        messages = _messages(1_000)
        places = [_places(message) for message in messages]
        holders: dict[tuple[str, ...], set[int]] = {}
        for at, found in enumerate(places):
            for place in found:
                holders.setdefault(place, set()).add(at)
        left = self.subscriptions
        while left:
            top = random.choice(messages)
            path = random.choice(("/", "//")) + top.name
            terms = [self._term(random, top) for _ in range(min(10, max(2, round(random.gauss(7, 2)))))]
            chosen = sorted(set.intersection(*(holders[term.place] for term in terms)))
            for _ in range(min(left, self.per_shape)):
                found = places[random.choice(chosen)]
                conditions = [term.text(random.choice(found[term.place])) for term in terms]
                yield f"{path}[{' and '.join(conditions)}]"
                left -= 1

    def _term(self, random: Random, at: Element) -> _Term:
        path = ""
        place: tuple[str, ...] = ()
        while at.children and random.random() < 0.6:
            at = random.choice(at.children)
            path += random.choice(("/", "/", "//")) + at.name
            place += (at.name,)
        path = f".{path}/" if path.startswith("//") else f"{path[1:]}/" if path else ""
        name = random.choice(list(at.values))
        kind = random.random()
        return _Term((*place, name), f"{path}{name}", "=" if kind < 0.8 else "<" if kind < 0.9 else ">")

    def batch(self, count: int) -> pa.Array:
        """Return messages as a column."""
        return pa.array([message.xml().encode() for message in _messages(count)], pa.binary())


@cache
def _messages(count: int) -> list[Element]:
    random = Random("nested messages")
    return [_element(random) for _ in range(count)]


def _places(at: Element) -> dict[tuple[str, ...], list[str]]:
    """Return the values of a message by the names of the elements above each."""
    found: dict[tuple[str, ...], list[str]] = {(name,): [value] for name, value in at.values.items()}
    for child in at.children:
        for place, values in _places(child).items():
            found.setdefault((child.name, *place), []).extend(values)
    return found


# -- engines


def loaded(work: Stocks | Nested, plan: str, file: str | None = None) -> RelationalEngine:
    """Return an engine with the subscriptions, in memory or in a file."""
    engine = RelationalEngine(DuckDB(file, threads=1), plan=plan)
    engine.add_many(Subscription(i, query) for i, query in enumerate(work.queries()))
    return engine


def timed(engine: RelationalEngine, batch: pa.Array, repeat: int = 2) -> tuple[float, int]:
    """Return CPU seconds of the best run, shredding included, and notifications. A first run fills PathMatch."""
    found = engine.match_rows(batch)[0].num_rows
    best = float("inf")
    for _ in range(repeat):
        gc.collect()
        start = process_time()
        engine.match_rows(batch)
        best = min(best, process_time() - start)
    return best, found


class _CompiledOnce(Compiler):
    """Compiles a subscription once for all engines that are loaded together: most of the time of loading."""

    def __init__(self) -> None:
        super().__init__({}, list)
        self.made: dict[int | str, list[list[Row]]] = {}

    def compile(self, s: Subscription) -> list[list[Row]]:
        found = self.made.get(s.id)
        if found is None:
            found = self.made[s.id] = super().compile(s)
        return found


def _load_files(files: Mapping[tuple[Stocks | Nested, str], str]) -> None:
    """Load sets of subscriptions into files, by set and plan. The largest set begins with each of the others."""
    compiler = _CompiledOnce()
    engines = {key: RelationalEngine(DuckDB(file, threads=1), plan=key[1]) for key, file in files.items()}
    for engine in engines.values():
        engine._compiler = compiler
    rest = enumerate(max((work for work, _ in files), key=lambda work: work.subscriptions).queries())
    while some := [Subscription(i, query) for i, query in islice(rest, 50_000)]:
        for (work, _), engine in engines.items():
            engine.add_many(s for s in some if int(s.id) < work.subscriptions)
        compiler.made.clear()
    for engine in engines.values():
        engine.close()


@dataclass
class Measured:
    """An engine that is measured repeatedly on one batch: matching, and computing PathMatch from nothing."""

    engine: RelationalEngine
    batch: pa.Array
    notifications: int = 0
    linear_paths: int = 0
    tag_paths: list[str] = field(default_factory=list)

    def prepare(self) -> None:
        """Match once, to learn the tag paths and to count."""
        self.notifications = self.engine.match_rows(self.batch)[0].num_rows
        ((self.linear_paths,),) = self.engine.database.rows("SELECT count(*) FROM query_linear_path")
        found = self.engine.database.rows("SELECT tagpath FROM tagpath_map ORDER BY tagpath_id")
        self.tag_paths = [text for (text,) in found]

    def seconds(self) -> list[float]:
        """Return CPU seconds of matching with PathMatch filled, and of computing PathMatch."""
        learnt = median([self._learn() for _ in range(LEARNT)])
        self.engine.statement()
        return [repeated(self._match), learnt]

    def _learn(self) -> float:
        database = self.engine.database
        with database.change():
            for table in ("path_match", "tagpath_br_info", "tagpath_map"):
                database.execute(f"DELETE FROM {table}")
            database.execute("UPDATE relational_meta SET changes = changes + 1")
        self.engine.learn([])  # reads the linear paths
        began = process_time()
        self.engine.learn(self.tag_paths)
        return process_time() - began

    def _match(self) -> float:
        began = process_time()
        found = self.engine.match_rows(self.batch)[0].num_rows
        took = process_time() - began
        if found != self.notifications:
            raise AssertionError(f"{found} notifications in this round, {self.notifications} before")
        return took


LEARNT = 5
Setting = tuple[Stocks | Nested, str]
"""A set of subscriptions, and a plan."""


@dataclass(frozen=True)
class Prepared:
    """Loaded databases, and the messages for each: what a process needs to measure."""

    files: Mapping[Setting, str]
    batches: Mapping[Stocks | Nested, pa.Array]
    rounds: int


def load(
    works: Mapping[Stocks | Nested, tuple[Sequence[str], pa.Array]], folder: Path, rounds: int, progress: Progress
) -> Prepared:
    """Load each set of subscriptions for each of its plans, into files."""
    files = {
        (work, plan): str(folder / f"{at}-{plan}.db")
        for at, (work, (plans, _)) in enumerate(works.items())
        for plan in plans
    }
    # Each set of nested twigs begins with the smaller ones. Sets of stocks have nothing in common.
    nested = [work for work in works if isinstance(work, Nested)]
    for together in [[work] for work in works if isinstance(work, Stocks)] + [nested] * bool(nested):
        _load_files({key: file for key, file in files.items() if key[0] in together})
        for work in together:
            progress.step(f"{work.subscriptions:,} subscriptions loaded")
    return Prepared(files, {work: batch for work, (_, batch) in works.items()}, rounds)


@dataclass(frozen=True)
class Found:
    """What one process has measured and counted: seconds of matching and of PathMatch; and notifications, linear paths
    and tag paths."""

    times: Mapping[Setting, list[float]]
    counts: Mapping[Setting, tuple[int, int, int]]


def measured(made: Prepared, at: int, say: Say) -> Found:
    """Measure all sets and plans in this process, on copies of the databases of its own."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        every: dict[Setting, Measured] = {}
        for number, (key, file) in enumerate(made.files.items()):
            own = shutil.copy(file, Path(folder) / f"{number}.db")
            engine = RelationalEngine(DuckDB(str(own), threads=1))
            stack.callback(engine.close)
            every[key] = Measured(engine, made.batches[key[0]])
            every[key].prepare()
        say("messages matched once", 0.3)
        times = measure_rows({key: one.seconds for key, one in every.items()}, made.rounds)
        say("measured", 1.0)
        counts = {key: (one.notifications, one.linear_paths, len(one.tag_paths)) for key, one in every.items()}
    return Found(times, counts)


@dataclass(frozen=True)
class Merged:
    """What all processes have measured, and counted."""

    numbers: Mapping[Setting, Sequence[Spread]]
    counts: Mapping[Setting, tuple[int, int, int]]

    def time(self, work: Stocks | Nested, plan: str) -> Spread:
        """Return the time of matching."""
        return self.numbers[work, plan][0]

    def path_match(self, work: Stocks | Nested) -> Spread:
        """Return the time of computing PathMatch."""
        return self.numbers[work, "unroll"][1]

    def notifications(self, work: Stocks | Nested, plans: Sequence[str]) -> Cell:
        """Return the notifications, one number if all plans find as many."""
        return _agreed([self.counts[work, plan][0] for plan in plans])


# -- the experiments


@dataclass(frozen=True)
class Sizes:
    """How much is run. ``stocks`` are subscriptions where the paper has a million."""

    stocks: int
    nested: tuple[int, ...]
    nested_messages: int
    processes: int
    rounds: int
    messages: int = MESSAGES


FULL = Sizes(100_000, (16_250, 32_500, 65_000), 50, PROCESSES, ROUNDS)
QUICK = Sizes(10_000, (1_000, 2_000), 10, 2, 2)


def run(quick: bool, say: Say) -> Report:
    """Run all experiments of the page."""
    report = experiments(QUICK if quick else FULL, "twigcast bench relational" + " --quick" * quick, say)
    report.quick = quick
    return report


def experiments(sizes: Sizes, command: str, say: Say) -> Report:
    """Run all experiments with these sizes."""
    report = Report(
        "relational",
        "Publish/subscribe in a relational database",
        command,
        "Tian et al., *Implementing a scalable XML publish/subscribe system using relational database systems*, SIGMOD"
        " 2004, §5. Theirs is DB2 8.1 on a Pentium IV of 2004; ours is DuckDB on one thread, parsing included."
        " *PathMatch* is the time to compute the PathMatch table from nothing, which happens once for new tag paths;"
        " the times of the plans do not include it.",
        sizes.processes,
        sizes.rounds,
    )
    stocks = _stock_settings(sizes)
    batch = next(iter(stocks.values())).batch(sizes.messages)  # the same for all
    works: dict[Stocks | Nested, tuple[Sequence[str], pa.Array]] = dict.fromkeys(stocks.values(), (PLANS, batch))
    nested = [Nested(n) for n in sizes.nested]
    works |= {work: (NESTED_PLANS, work.batch(sizes.nested_messages)) for work in nested}
    share = 0.2
    progress = Progress(len(works), lambda text, part: say(text, share * part))
    with tempfile.TemporaryDirectory() as folder:
        made = load(works, Path(folder), sizes.rounds, progress)
        runs: list[Found] = in_fresh_processes(measured, made, sizes.processes, say, share)
    if any(one.counts != runs[0].counts for one in runs):
        raise AssertionError("processes have found different numbers of notifications or paths")
    found = Merged(merged([one.times for one in runs]), runs[0].counts)
    _stocks(report, stocks, sizes, found)
    _recursive(report, sizes, found)
    return report


NESTED_PLANS = ("unroll", "share")


def _stock_settings(sizes: Sizes) -> dict[tuple[int, int], Stocks]:
    """Return the settings of Tables 5.1 and 5.2, by the paper's subscriptions and notifications."""
    share = sizes.stocks / 1_000_000
    # A smaller set has as many subscriptions to a symbol.
    symbols = max(1, round(SYMBOLS * share))
    keys = [(1_000_000, found) for found in claims.TABLE_5_1] + [(n, n // 10) for n in claims.TABLE_5_2]
    return {key: Stocks(round(key[0] * share), max(1, round(key[1] * share)), symbols) for key in dict.fromkeys(keys)}


def _stocks(report: Report, settings: Mapping[tuple[int, int], Stocks], sizes: Sizes, found: Merged) -> None:
    """Tables 5.1 and 5.2, which have a row in common."""
    times = {(key, plan): found.time(work, plan) for key, work in settings.items() for plan in PLANS}
    path_match = {key: found.path_match(work) for key, work in settings.items()}
    counts = {key: found.notifications(work, PLANS) for key, work in settings.items()}
    fewest = (1_000_000, min(claims.TABLE_5_1))
    one, theirs_of_one = times[fewest, "unroll"], claims.TABLE_5_1[fewest[1]][0]
    of_one = Unit(
        f"the time of unroll in the first row of Table 5.1; the paper's is {theirs_of_one} s", f"{rough(one.median)} s"
    )
    shape = [
        ("messages", f"{sizes.messages:,}", f"{MESSAGES:,}"),
        ("predicates per subscription", "5", "5"),
        ("symbols", f"{next(iter(settings.values())).symbols:,}", "not told"),
    ]
    plans = [f"{plan}, {who}" for plan in PLANS for who in ("ours", "theirs")]

    def row(key: tuple[int, int], theirs: Sequence[float]) -> list[Cell]:
        pairs = [
            (times[key, plan].over(one), seconds / theirs_of_one) for plan, seconds in zip(PLANS, theirs, strict=True)
        ]
        return [counts[key], key[1], *(cell for pair in pairs for cell in pair), path_match[key].over(one)]

    rows = [row((1_000_000, found), theirs) for found, theirs in claims.TABLE_5_1.items()]
    columns = ["notifications", "the paper's", *plans, "PathMatch, ours"]
    report.add(
        Table(
            f"Table 5.1: {sizes.stocks:,} subscriptions by number of notifications",
            columns,
            rows,
            [("subscriptions", f"{sizes.stocks:,}", "1,000,000"), *shape],
            claims.selectivities(times, path_match),
            f"The paper calls its time for PathMatch ignorable and gives no number. {_NAMED}",
            of_one,
        )
    )
    rows = [
        [settings[n, n // 10].subscriptions, n, *row((n, n // 10), theirs)] for n, theirs in claims.TABLE_5_2.items()
    ]
    title = "Table 5.2: by number of subscriptions, with the same selectivity"
    size = ("subscriptions", f"{rows[0][0]:,} to {rows[-1][0]:,}", f"{rows[0][1]:,} to {rows[-1][1]:,}")
    columns = ["subscriptions", "the paper's subscriptions", *columns]
    lines = {
        plan: (
            [settings[n, n // 10].subscriptions for n in claims.TABLE_5_2],
            [times[(n, n // 10), plan].over(one).median for n in claims.TABLE_5_2],
        )
        for plan in PLANS
    }
    report.add(
        Table(title, columns, rows, [size, *shape], claims.scalability(times), _NAMED, of_one),
        Plot("sizes", title, "subscriptions", TIME, lines, log_x=True),
    )


TIME = "CPU time, 1 as in the table"


def _recursive(report: Report, sizes: Sizes, found: Merged) -> None:
    """Tables 5.3 and 5.4 and Figure 5.2."""
    works = {n: Nested(n) for n in sizes.nested}
    times = {(n, plan): found.time(work, plan) for n, work in works.items() for plan in NESTED_PLANS}
    path_match = {n: found.path_match(work) for n, work in works.items()}
    one = times[sizes.nested[0], "unroll"]
    rows: list[list[Cell]] = []
    for n, work in works.items():
        _, linear_paths, tag_paths = found.counts[work, "unroll"]
        theirs = claims.TABLE_5_4.get(n, (None, None))
        row: list[Cell] = [n, n if n in claims.TABLE_5_4 else None, linear_paths, theirs[0], tag_paths]
        row += [found.notifications(work, NESTED_PLANS), *(times[n, plan].over(one) for plan in NESTED_PLANS)]
        rows.append([*row, path_match[n].over(one), theirs[1]])
    columns = ["subscriptions", "one of the paper's", "linear paths", "the paper's", "tag paths", "notifications"]
    columns += [*NESTED_PLANS, "PathMatch", "the paper's PathMatch, s"]
    shape = [
        ("subscriptions", f"{sizes.nested[0]:,} to {sizes.nested[-1]:,}", "130,000 to 2,700,000"),
        ("messages", f"{sizes.nested_messages:,}, generated", "2,433 files of NASA, 23 MB"),
        ("tag paths", f"{max(found.counts[work, 'unroll'][2] for work in works.values()):,}", "73"),
        ("branches of a twig", "2 to 10, 7 on average", "2 to 10, 7 on average"),
        ("twigs that differ only in values", "10", "not told"),
    ]
    title = (
        "Figure 5.2 and Tables 5.3 and 5.4: twigs of 2 to 10 branches over a recursive vocabulary,"
        f" {sizes.nested[0]:,} to {sizes.nested[-1]:,} subscriptions (the paper: 130,000 to 2,700,000)"
    )
    remark = _NASA
    if sizes.nested[-1] < min(claims.TABLE_5_4):
        remark += " The largest set is smaller than the paper's smallest: the verdict is about our range only."
    of_one = Unit(f"the time of unroll with {sizes.nested[0]:,} subscriptions", f"{rough(one.median)} s")
    lines = {plan: (sizes.nested, [times[n, plan].over(one).median for n in sizes.nested]) for plan in NESTED_PLANS}
    report.add(
        Table(title, columns, rows, shape, claims.recursive(times, path_match, sizes.nested), remark, of_one),
        Plot("nested", "A recursive vocabulary", "subscriptions", TIME, lines),
    )


_NAMED = "The largest set has 333 subscriptions to a symbol. The claims name a row by the paper's numbers."

_NASA = (
    "The NASA files are not ours to ship; the vocabulary is of the same kind. The paper gives its times as a plot only,"
    " for all of its files and with PathMatch included."
)


def _agreed(numbers: Sequence[int]) -> Cell:
    """Return the number that all have, or all of them if they differ."""
    return numbers[0] if len(set(numbers)) == 1 else " / ".join(f"{one:,}" for one in numbers)
