"""MMQJP's experiments (joins §6, Figures 8 to 16): the paper's strategies and the default beside one another.

Times are CPU time of the thread. As in the paper, those of ``mmqjp`` and ``mmqjp-materialized`` are of the join alone:
witnesses are given and results are not made. ``sequential`` and ``default`` also read the message and make the results.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from statistics import median
from time import thread_time

from twigcast.correlate.default import Default
from twigcast.ir.correlation import Correlation
from twigcast.limits import Limits
from twigcast.papers.experiments import joins_claims as claims
from twigcast.papers.experiments.measure import (
    PROCESSES,
    SHORTEST,
    Say,
    Spread,
    in_fresh_processes,
    measure,
    measure_rows,
    merged,
    rough,
)
from twigcast.papers.experiments.report import Cell, Plot, Progress, Report, Table, Unit
from twigcast.papers.joins.materialized import MaterializedMmqjp
from twigcast.papers.joins.minor import patterns
from twigcast.papers.joins.mmqjp import Mmqjp
from twigcast.papers.joins.sequential import Sequential
from twigcast.papers.joins.strategy import Arrival
from twigcast.papers.joins.template import Template, template_of
from twigcast.papers.joins.workload import (
    JoinQuery,
    JoinSchema,
    feed,
    feed_items,
    join_queries,
    three_level,
    two_level,
)
from twigcast.papers.plans.nodes import Message

STRATEGIES = claims.STRATEGIES
STREAM = "S"
# The other strategies make all results; so must the default, for times that can be compared.
UNCUT = Limits(max_message_results=2**28, max_message_result_bytes=2**30)

PREFACE = """
The experiments of §6 of Hong, Demers, Gehrke, Koch, Riedewald and White, *Massively Multi-Query Join Processing in
Publish/Subscribe Systems* (SIGMOD 2007). Two messages agree in every leaf; the second one is processed with the first
in the state (Figures 8 to 15). Times are CPU time for that message. Those of `mmqjp` and
`mmqjp-materialized`, on DuckDB, are of the join alone, as in the paper; `sequential` (nested loops in Python) and
`default` (the kernel) include reading the message, its witnesses, and the results. The paper ran on SQL Server 2005 and
a Pentium D. Its figures are pictures without numbers; the claims are those of its text.

*Templates* are those that `mmqjp` makes: the left and the right side of a FOLLOWED BY are different. The paper's
numbers of templates come out if two templates count as one that differ only in which side is left: that is the column
*up to exchange of sides*. *Results* are the results for the message, the same for all strategies.
"""


@dataclass(frozen=True)
class Sizes:
    """How much is run. ``feeds`` are queries, items for all strategies, and items for the default alone."""

    counts: tuple[int, ...]
    queries: int
    leaves: tuple[int, ...]
    zipfs: tuple[float, ...]
    joins: tuple[int, ...]
    feeds: tuple[tuple[int, int, int], ...]
    processes: int
    rounds: int


FULL = Sizes(
    (10, 100, 1_000, 10_000, 100_000),
    1_000,
    (4, 6, 8, 10, 12),
    (0.0, 0.4, 0.8, 1.2, 1.6),
    (2, 3, 4, 5),
    ((10, 20, 2_000), (1_000, 20, 2_000), (10_000, 5, 1_000), (100_000, 3, 200)),
    PROCESSES,
    1,
)
QUICK = Sizes((10, 100), 100, (4, 6), (0.0, 1.6), (2, 3), ((10, 5, 50), (100, 5, 50)), 2, 1)


@dataclass(frozen=True)
class Case:
    """A set of queries over messages of one schema."""

    schema: JoinSchema
    count: int
    most: int | None = None
    zipf: float = 0.8

    def queries(self) -> list[JoinQuery]:
        """Return the queries."""
        return list(islice(join_queries(self.schema, most=self.most, zipf=self.zipf), self.count))


def run(quick: bool, say: Say) -> Report:
    """Run all experiments of the page."""
    report = experiments(QUICK if quick else FULL, "twigcast bench joins" + " --quick" * quick, say)
    report.quick = quick
    return report


def experiments(sizes: Sizes, command: str, say: Say) -> Report:
    """Run all experiments with these sizes."""
    by_count = {
        schema: {n: Case(schema, n, most) for n in sizes.counts}
        for schema, most in ((two_level(), None), (three_level(), 4))
    }
    by_parameter: dict[str, Mapping[float, Case]] = {
        "9": {leaves: Case(two_level(leaves), sizes.queries) for leaves in sizes.leaves},
        "10": {zipf: Case(two_level(), sizes.queries, None, zipf) for zipf in sizes.zipfs},
        "12": {most: Case(three_level(), sizes.queries, most) for most in sizes.joins},
        "13": {zipf: Case(three_level(), sizes.queries, 4, zipf) for zipf in sizes.zipfs},
    }
    # Figures share cases. Each case is measured once, so that all figures print the same number for it.
    every = dict.fromkeys(case for cases in by_count.values() for case in cases.values())
    every |= dict.fromkeys(case for cases in by_parameter.values() for case in cases.values())
    share = 0.2
    progress = Progress(len(every) + len(sizes.feeds) + 1, lambda text, part: say(text, share * part))
    shapes: dict[Case, tuple[int, int]] = {}
    inputs: dict[Case, Input] = {}
    for case in every:
        queries = case.queries()
        shapes[case] = templates(queries)
        inputs[case] = packed(queries)
        progress.step(f"{case.count:,} queries over {len(case.schema.leaves)} leaves: prepared")
    feeds = _feed_cases(sizes, progress)
    runs: list[Raw] = in_fresh_processes(measured, (sizes, inputs, feeds), sizes.processes, say, share)
    if any(one.results != runs[0].results for one in runs):
        raise AssertionError("processes have found different numbers of results")
    numbers, results = merged([one.times for one in runs]), runs[0].results
    found = {
        case: Found(
            {name: numbers[case, name][0] for name in STRATEGIES},
            numbers[case, "mmqjp-materialized"][1],
            *shapes[case],
            agreed([results[case, name] for name in STRATEGIES]),
        )
        for case in every
    }
    report = Report(
        "joins",
        "Correlations: massively multi-query join processing",
        command,
        PREFACE,
        sizes.processes,
        sizes.rounds,
    )
    flat, deep = by_count
    one = found[Case(flat, sizes.queries)].times["sequential"]
    of_one = Unit(
        f"the time of sequential for {sizes.queries:,} queries, as in Figure 9 with 6 leaves", f"{rough(one.median)} ms"
    )
    pages = Pages(report, found, one, of_one)
    pages.by_count("8", "two-level", by_count[flat])
    pages.by_parameter("9", by_parameter["9"])
    pages.by_parameter("10", by_parameter["10"])
    pages.by_count("11", "three-level", by_count[deep])
    pages.by_parameter("12", by_parameter["12"])
    pages.by_parameter("13", by_parameter["13"])
    largest = sizes.counts[-1]
    report.add(pages.views(largest, found[by_count[flat][largest]], found[by_count[deep][largest]]))
    report.add(_feeds(sizes, feeds, numbers, results))
    return report


# -- queries


@dataclass(frozen=True)
class Input:
    """The queries of a case, and MMQJP as it is when it has them, which takes long to make."""

    correlations: list[Correlation]
    mmqjp: bytes


def packed(queries: Iterable[JoinQuery], *, results: bool = False) -> Input:
    """Prepare queries for all strategies. Only if ``results`` says so can MMQJP make results, and not only join."""
    correlations = [one.correlation for one in queries]
    strategy = Mmqjp()
    add_all(strategy, correlations)
    state = {name: value for name, value in vars(strategy).items() if name != "connection"}
    if not results:
        state["queries"] = {}
    return Input(correlations, pickle.dumps(state, pickle.HIGHEST_PROTOCOL))


def unpacked(name: str, state: bytes) -> Mmqjp:
    """Return MMQJP, or that with views, with its queries in an empty database."""
    strategy = Mmqjp() if name == "mmqjp" else MaterializedMmqjp()
    vars(strategy).update(pickle.loads(state))
    for template in strategy.families:
        strategy.create_relation(template)
    return strategy


# -- one message


class Prepared:
    """A strategy with its queries, ready to process the second of two messages that agree in all leaves, repeatedly."""

    def __init__(self, name: str, schema: JoinSchema, queries: Input) -> None:
        self.name = name
        self._schema = schema
        self._correlations = queries.correlations
        self._round = 0
        self.results = 0
        if name in ("mmqjp", "mmqjp-materialized"):
            self._paper = unpacked(name, queries.mmqjp)
            first, self._second = self._arrivals()
            self._paper.process(first)
            self._witnessed = self._paper.witness(self._second, Message(self._second.xml))
            self._paper.join(self._second, self._witnessed)  # loads the queries into their tables
        elif name == "default":
            self._default = Default(limits=UNCUT)
            add_all(self._default, self._correlations)
            # The kernel keeps what it learns of the tag paths of a message.
            self._default.push(STREAM, False, 0, b"0", self._arrivals()[0].xml)

    def _arrivals(self) -> list[Arrival]:
        """Return two messages that agree with each other, and with no message of another round."""
        self._round += 1
        values = [f"value {at} of {self._round}" for at in range(len(self._schema.leaves))]
        return [
            Arrival(2 * self._round + at, STREAM, 2 * self._round + at, self._schema.message(values)) for at in (0, 1)
        ]

    def milliseconds(self) -> list[float]:
        """Process the second message, several times if it takes little.

        Returns the median time, and that of making the views R_L and R_R.
        """
        runs = {"sequential": self._sequential, "default": self._by_default}
        found = [runs.get(self.name, self._joined)()]
        while sum(one for one, _ in found) < SHORTEST and len(found) < 50:
            found.append(runs.get(self.name, self._joined)())
        return [1_000 * median(column) for column in zip(*found, strict=True)]

    def _joined(self) -> tuple[float, float]:
        self._forget_views()
        started = thread_time()
        self._paper.load_witnesses(self._witnessed)
        loaded = thread_time()
        # The join loads its witnesses, and makes its views, itself: they were made before to measure that alone.
        self._forget_views()
        began = thread_time()
        found = self._paper.join(self._second, self._witnessed)
        done = thread_time()
        self.results = sum(len(pairs) for _, pairs in found)
        return done - began, loaded - started

    def _forget_views(self) -> None:
        """Make the cache of views what it is when the second message comes: empty."""
        if self.name == "mmqjp-materialized":
            self._paper.connection.execute("DELETE FROM view_cache")

    def _sequential(self) -> tuple[float, float]:
        """Nested loops join with all messages in the state, so that each run starts anew."""
        strategy = Sequential()
        add_all(strategy, self._correlations)
        first, second = self._arrivals()
        strategy.process(first)
        started = thread_time()
        self.results = len(strategy.process(second))
        return thread_time() - started, 0.0

    def _by_default(self) -> tuple[float, float]:
        first, second = self._arrivals()
        self._default.push(STREAM, False, first.time, b"1", first.xml)
        started = thread_time()
        _, results, _ = self._default.push(STREAM, False, second.time, b"2", second.xml)
        took = thread_time() - started
        self.results = len(results)
        return took, 0.0


@dataclass
class Raw:
    """What one process has measured and counted, by case and strategy."""

    times: dict[tuple[object, str], list[float]] = field(default_factory=dict)
    results: dict[tuple[object, str], int] = field(default_factory=dict)


def measured(given: tuple[Sizes, Mapping[Case, Input], Sequence[Feed]], at: int, say: Say) -> Raw:
    """Measure all cases and strategies in this process."""
    sizes, inputs, feeds = given
    found = Raw()
    prepared = {
        (case, name): Prepared(name, case.schema, queries) for case, queries in inputs.items() for name in STRATEGIES
    }
    say("strategies prepared", 0.2)
    found.times |= measure_rows({key: one.milliseconds for key, one in prepared.items()}, sizes.rounds)
    found.results |= {key: one.results for key, one in prepared.items()}
    del prepared
    say("Figures 8 to 15", 0.6)
    settings: dict[tuple[object, str], Callable[[], float]] = {}
    for feed_case in feeds:
        for name in STRATEGIES:
            items = feed_case.many if name == "default" else feed_case.items
            key = (feed_case.title, name)
            settings[key] = _throughput(name, feed_case, items, found.results, key)
    found.times |= measure(settings, sizes.rounds)
    say("Figure 16", 1.0)
    return found


def add_all(strategy: Sequential | Mmqjp | Default, correlations: Iterable[Correlation]) -> None:
    """Add queries, numbered from 0."""
    for number, correlation in enumerate(correlations):
        strategy.add(number, correlation)


def templates(queries: Iterable[JoinQuery]) -> tuple[int, int]:
    """Return the number of templates, and their number if those count as one that differ only in which side is left."""
    found: dict[Template, frozenset[Template]] = {}
    for query in queries:
        template = template_of(patterns(query.correlation)[0])[0]
        if template not in found:
            exchanged = JoinQuery(query.schema, tuple((right, left) for left, right in query.pairs))
            found[template] = frozenset((template, template_of(patterns(exchanged.correlation)[0])[0]))
    return len(found), len(set(found.values()))


@dataclass(frozen=True)
class Found:
    """What was measured and counted for one case."""

    times: Mapping[str, Spread]
    views: Spread
    templates: int
    exchanged: int
    results: Cell


def agreed(numbers: Sequence[int]) -> Cell:
    """Return the number that all have, or all of them if they differ."""
    return numbers[0] if len(set(numbers)) == 1 else " / ".join(f"{one:,}" for one in numbers)


# -- figures

COUNTED = ["templates", "up to exchange of sides", "the paper's templates", "results"]
_PARAMETERS = {
    "9": ("two-level messages, the number of leaves", "leaves"),
    "10": ("two-level messages, the Zipf parameter", "Zipf"),
    "12": ("three-level messages, value joins per query at most", "value joins"),
    "13": ("three-level messages, the Zipf parameter", "Zipf"),
}


@dataclass(frozen=True)
class Pages:
    """Makes the tables of Figures 8 to 15, whose times are multiples of ``one``."""

    report: Report
    found: Mapping[Case, Found]
    one: Spread
    of_one: Unit

    def _row(self, value: Cell, case: Case, theirs: Cell) -> list[Cell]:
        found = self.found[case]
        times = [found.times[name].over(self.one) for name in STRATEGIES]
        return [value, found.templates, found.exchanged, theirs, found.results, *times]

    def by_count(self, figure: str, of: str, cases: Mapping[int, Case]) -> None:
        """Add Figure 8 or 11."""
        theirs = claims.TEMPLATES[figure]
        rows = [self._row(n, case, theirs.get(n)) for n, case in cases.items()]
        columns = ["queries", *COUNTED, *STRATEGIES]
        last = self.found[cases[max(cases)]]
        checked = claims.by_count(figure, {n: self.found[case].times for n, case in cases.items()}, last.exchanged)
        title = f"Figure {figure}: {of} messages, the number of queries"
        sizes = [("queries", f"{min(cases):,} to {max(cases):,}", "10 to 100,000"), _leaves(next(iter(cases.values())))]
        self.report.add(Table(title, columns, rows, sizes, checked, unit=self.of_one))
        self.report.add(self._plot(figure, title, "queries", cases, log=True))

    def by_parameter(self, figure: str, cases: Mapping[float, Case]) -> None:
        """Add Figure 9, 10, 12 or 13."""
        text, parameter = _PARAMETERS[figure]
        theirs = claims.TEMPLATES[figure]
        rows = [self._row(value, case, theirs.get(int(value))) for value, case in cases.items()]
        columns = [parameter, *COUNTED, *STRATEGIES]
        times = {value: self.found[case].times for value, case in cases.items()}
        counts = {value: self.found[case].exchanged for value, case in cases.items()}
        case = next(iter(cases.values()))
        sizes = [("queries", f"{case.count:,}", "1,000"), *([] if figure == "9" else [_leaves(case)])]
        title = f"Figure {figure}: {text} ({case.count:,} queries)"
        checked = claims.by_parameter(figure, times, counts)
        self.report.add(Table(title, columns, rows, sizes, checked, unit=self.of_one))
        self.report.add(self._plot(figure, title, parameter, cases))

    def _plot(
        self,
        figure: str,
        title: str,
        x: str,
        cases: Mapping[float, Case] | Mapping[int, Case],
        *,
        log: bool = False,
    ) -> Plot:
        xs = [float(value) for value in cases]
        lines = {
            name: (xs, [self.found[case].times[name].over(self.one).median for case in cases.values()])
            for name in STRATEGIES
        }
        return Plot(f"figure{figure}", title, x, "CPU time, 1 as in the table", lines, log_x=log, log_y=True)

    def views(self, count: int, flat: Found, deep: Found) -> Table:
        """Return Figures 14 and 15."""
        rows: list[list[Cell]] = []
        gains: list[Spread] = []
        for title, found, theirs in (("14: two-level", flat, 6), ("15: three-level", deep, 22)):
            plain, views = found.times["mmqjp"], found.times["mmqjp-materialized"]
            gains.append(plain.over(views))
            row: list[Cell] = [title, found.templates, found.exchanged, theirs, found.results]
            rows.append([*row, *(time.over(self.one) for time in (plain, views, found.views)), gains[-1]])
        columns = ["figure", *COUNTED, "mmqjp", "mmqjp-materialized", "of which R_L and R_R", "gain"]
        sizes = [("queries", f"{count:,}", "100,000")]
        title = f"Figures 14 and 15: view materialisation ({count:,} queries)"
        return Table(title, columns, rows, sizes, claims.views(*gains), unit=self.of_one)


def _leaves(case: Case) -> tuple[str, str, str]:
    count = len(case.schema.leaves)
    return "leaves of a message", str(count), "6" if count == 6 else "16"


# -- the feed stream


@dataclass(frozen=True)
class Feed:
    """A row of Figure 16: queries, and how many items the paper's strategies and the default process."""

    title: str
    count: int
    distinct: int
    items: int
    many: int
    queries: Input


def _feed_cases(sizes: Sizes, progress: Progress) -> list[Feed]:
    """Return the rows of Figure 16: the paper's queries by number, and as many distinct ones as it has at most."""
    wanted = [(count, 0, items, many, f"{count:,} as the paper's") for count, items, many in sizes.feeds]
    count, items, _ = sizes.feeds[-1]
    wanted.append((count, 418, items, sizes.feeds[0][2], f"{count:,} distinct"))
    cases = []
    for count, channels, items, many, title in wanted:
        queries = list(islice(join_queries(feed(), channels=channels), count))
        distinct = len({(frozenset(one.pairs), one.only) for one in queries})
        cases.append(Feed(title, count, distinct, items, many, packed(queries, results=True)))
        progress.step(f"feed, {title}: prepared")
    return cases


def _feeds(
    sizes: Sizes,
    feeds: Sequence[Feed],
    numbers: Mapping[tuple[object, str], Sequence[Spread]],
    results: Mapping[tuple[object, str], int],
) -> Table:
    """Figure 16: the paper's strategies over the same first items of the stream, each from an empty state."""
    rates = {(one.title, name): numbers[one.title, name][0] for one in feeds for name in STRATEGIES}
    unit = rates[feeds[1].title, "sequential"]
    papers = STRATEGIES[:3]
    rows: list[list[Cell]] = []
    for one in feeds:
        found = agreed([results[one.title, name] for name in (*papers, "default, first items")])
        each = [rates[one.title, name].over(unit) for name in papers]
        default: list[Cell] = [one.many, results[one.title, "default"], rates[one.title, "default"].over(unit)]
        rows.append([one.title, one.distinct, one.items, found, *each, *default])
    columns = ["queries", "distinct", "items", "results", *papers]
    columns += ["items for the default", "its results", "default"]
    by_count = {n: {name: rates[f"{n:,} as the paper's", name] for name in STRATEGIES} for n, _, _ in sizes.feeds}
    spans = ", ".join(f"{items:,}" for items in dict.fromkeys(items for _, items, _ in sizes.feeds))
    shape = [("items", f"{spans} (see the column)", "225,000"), ("items at a time", "1", "many, not told how many")]
    shape.append(("channels", "418, generated", "418, collected"))
    text = f"the throughput of sequential, items per second, with {feeds[1].count:,} queries as the paper's"
    checked = claims.feeds(by_count)
    of_one = Unit(text, f"{rough(unit.median)} items per second")
    return Table("Figure 16: the feed stream", columns, rows, shape, checked, _FEEDS, of_one)


_FEEDS = """
All strategies process the same first items of the stream, one at a time, from an empty state, and find the same. The
throughput of the default is over more items, which the others would take hours for: over the same few it would be a
few tenths of a millisecond, too little to be measured. The last row has distinct queries, each of which wants two of
418 channels.
"""


def _throughput(
    name: str,
    one: Feed,
    items: int,
    counted: dict[tuple[object, str], int],
    key: tuple[object, str],
) -> Callable[[], float]:
    """Return a measurement of items per second; it also counts the results."""

    def measured() -> float:
        arrivals = [Arrival(at, STREAM, at, xml) for at, xml in enumerate(islice(feed_items(), items), 1)]
        if name == "default":
            return _default_throughput(one, arrivals, counted)
        strategy: Sequential | Mmqjp
        if name == "sequential":
            strategy = Sequential()
            add_all(strategy, one.queries.correlations)
        else:
            strategy = unpacked(name, one.queries.mmqjp)
        started = thread_time()
        found = sum(len(strategy.process(arrival)) for arrival in arrivals)
        took = thread_time() - started
        counted[key] = found
        return items / took

    return measured


def _default_throughput(one: Feed, arrivals: Sequence[Arrival], counted: dict[tuple[object, str], int]) -> float:
    """Return the items per second of the default; count its results, and those for the other strategies' items."""
    strategy = Default(limits=UNCUT)
    add_all(strategy, one.queries.correlations)
    found = []
    started = thread_time()
    for arrival in arrivals:
        found.append(len(strategy.push(STREAM, False, arrival.time, b"", arrival.xml)[1]))
    took = thread_time() - started
    counted[one.title, "default"] = sum(found)
    counted[one.title, "default, first items"] = sum(found[: one.items])
    return len(arrivals) / took
