"""MMQJP's experiments (joins §6, Figures 8 to 16): the paper's strategies and the default beside one another.

Times are CPU time of the thread. As in the paper, those of ``mmqjp`` and ``mmqjp-materialized`` are of the join alone:
witnesses are given and results are not made. ``sequential`` and ``default`` also read the message and make the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from time import thread_time

from twigcast.correlate.default import Default
from twigcast.ir.correlation import Correlation
from twigcast.limits import Limits
from twigcast.papers.experiments import joins_claims as claims
from twigcast.papers.experiments.measure import ROUNDS, Spread, measure, measure_rows
from twigcast.papers.experiments.report import Cell, Plot, Progress, Report, Say, Table
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
from twigcast.transform.nodes import Message

STRATEGIES = claims.STRATEGIES
STREAM = "S"
# The other strategies make all results; so must the default, for times that can be compared.
UNCUT = Limits(max_message_results=2**28, max_message_result_bytes=2**30)

PREFACE = """
The experiments of §6 of Hong, Demers, Gehrke, Koch, Riedewald and White, *Massively Multi-Query Join Processing in
Publish/Subscribe Systems* (SIGMOD 2007). Two messages agree in every leaf; the second one is processed with the first
in the state (Figures 8 to 15). Times are milliseconds of CPU time for that message. Those of `mmqjp` and
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
    rounds: int


FULL = Sizes(
    (10, 100, 1_000, 10_000, 100_000),
    1_000,
    (4, 6, 8, 10, 12),
    (0.0, 0.4, 0.8, 1.2, 1.6),
    (2, 3, 4, 5),
    ((10, 20, 2_000), (1_000, 20, 2_000), (10_000, 5, 1_000), (100_000, 3, 200)),
    ROUNDS,
)
QUICK = Sizes((10, 100), 100, (4, 6), (0.0, 1.6), (2, 3), ((10, 5, 50), (100, 5, 50)), 2)


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
    return experiments(QUICK if quick else FULL, "twigcast bench joins" + " --quick" * quick, say)


def experiments(sizes: Sizes, command: str, say: Say) -> Report:
    """Run all experiments with these sizes."""
    report = Report("joins", "Correlations: massively multi-query join processing", command, PREFACE, sizes.rounds)
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
    every = dict.fromkeys(case for cases in by_count.values() for case in cases.values())
    every |= dict.fromkeys(case for cases in by_parameter.values() for case in cases.values())
    steps = len(every) * (1 + len(STRATEGIES) * sizes.rounds)
    progress = Progress(steps + (len(sizes.feeds) + 1) * (len(STRATEGIES) + 1) * sizes.rounds, say)
    # A case that several figures show is measured once: it has the same number everywhere.
    found = _measured(list(every), sizes.rounds, progress)
    flat, deep = by_count
    _by_count(report, "8", "two-level", by_count[flat], found)
    _by_parameter(report, "9", by_parameter["9"], found)
    _by_parameter(report, "10", by_parameter["10"], found)
    _by_count(report, "11", "three-level", by_count[deep], found)
    _by_parameter(report, "12", by_parameter["12"], found)
    _by_parameter(report, "13", by_parameter["13"], found)
    largest = sizes.counts[-1]
    report.add(_views(largest, found[by_count[flat][largest]], found[by_count[deep][largest]]))
    report.add(_feeds(sizes, progress))
    return report


# -- one message


class Prepared:
    """A strategy with its queries, ready to process the second of two messages that agree in all leaves, repeatedly."""

    def __init__(self, name: str, schema: JoinSchema, correlations: Sequence[Correlation]) -> None:
        self.name = name
        self._schema = schema
        self._correlations = correlations
        self._round = 0
        self.results = 0
        self.views = 0.0
        """Milliseconds for the views R_L and R_R in the last run."""
        if name in ("mmqjp", "mmqjp-materialized"):
            self._paper = Mmqjp() if name == "mmqjp" else MaterializedMmqjp()
            add_all(self._paper, correlations)
            first, self._second = self._arrivals()
            self._paper.process(first)
            self._witnessed = self._paper.witness(self._second, Message(self._second.xml))
            self._paper.join(self._second, self._witnessed)  # loads the queries into their tables
        elif name == "default":
            self._default = Default(limits=UNCUT)
            add_all(self._default, correlations)
            # The kernel keeps what it learns of the tag paths of a message.
            self._default.push(STREAM, False, 0, b"0", self._arrivals()[0].xml)

    def _arrivals(self) -> list[Arrival]:
        """Return two messages that agree with each other, and with no message of another round."""
        self._round += 1
        values = [f"value {at} of {self._round}" for at in range(len(self._schema.leaves))]
        return [
            Arrival(2 * self._round + at, STREAM, 2 * self._round + at, self._schema.message(values)) for at in (0, 1)
        ]

    def milliseconds(self) -> float:
        """Process the second message once and return the time that it takes."""
        if self.name == "sequential":
            return self._sequential()
        if self.name == "default":
            return self._by_default()
        started = thread_time()
        self._paper.load_witnesses(self._witnessed)
        loaded = thread_time()
        found = self._paper.join(self._second, self._witnessed)
        done = thread_time()
        # The join loads its witnesses, and makes its views, itself. The time of that alone was measured before it.
        self.views = (loaded - started) * 1_000
        self.results = sum(len(pairs) for _, pairs in found)
        return (done - loaded) * 1_000

    def _sequential(self) -> float:
        """Nested loops join with all messages in the state, so that each run starts anew."""
        strategy = Sequential()
        add_all(strategy, self._correlations)
        first, second = self._arrivals()
        strategy.process(first)
        started = thread_time()
        self.results = len(strategy.process(second))
        return (thread_time() - started) * 1_000

    def _by_default(self) -> float:
        first, second = self._arrivals()
        self._default.push(STREAM, False, first.time, b"1", first.xml)
        started = thread_time()
        _, results, _ = self._default.push(STREAM, False, second.time, b"2", second.xml)
        took = thread_time() - started
        self.results = len(results)
        return took * 1_000


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


def _measured(cases: Sequence[Case], rounds: int, progress: Progress) -> dict[Case, Found]:
    """Measure all cases and strategies in the same rounds."""
    prepared: dict[tuple[Case, str], Prepared] = {}
    shapes: dict[Case, tuple[int, int]] = {}
    for case in cases:
        queries = case.queries()
        correlations = [one.correlation for one in queries]
        shapes[case] = templates(queries)
        for name in STRATEGIES:
            prepared[case, name] = Prepared(name, case.schema, correlations)
        progress.step(f"{case.count:,} queries over {len(case.schema.leaves)} leaves: prepared")

    def timed(one: Prepared) -> Callable[[], Sequence[float]]:
        return lambda: [one.milliseconds(), one.views]

    runs = measure_rows(
        {key: timed(one) for key, one in prepared.items()},
        rounds,
        lambda key: progress.step(f"{key[0].count:,} queries over {len(key[0].schema.leaves)} leaves: {key[1]}"),
    )
    return {
        case: Found(
            {name: runs[case, name][0] for name in STRATEGIES},
            runs[case, "mmqjp-materialized"][1],
            *shapes[case],
            agreed([prepared[case, name].results for name in STRATEGIES]),
        )
        for case in cases
    }


def agreed(numbers: Sequence[int]) -> Cell:
    """Return the number that all have, or all of them if they differ."""
    return numbers[0] if len(set(numbers)) == 1 else " / ".join(f"{one:,}" for one in numbers)


# -- figures

COUNTED = ["templates", "up to exchange of sides", "the paper's templates", "results"]


def _row(value: Cell, found: Found, theirs: Cell) -> list[Cell]:
    times = [found.times[name] for name in STRATEGIES]
    return [value, found.templates, found.exchanged, theirs, found.results, *times]


def _by_count(report: Report, figure: str, of: str, cases: Mapping[int, Case], found: Mapping[Case, Found]) -> None:
    theirs = claims.TEMPLATES[figure]
    rows = [_row(n, found[case], theirs.get(n)) for n, case in cases.items()]
    columns = ["queries", *COUNTED, *(f"{name}, ms" for name in STRATEGIES)]
    last = found[cases[max(cases)]]
    checked = claims.by_count(figure, {n: found[case].times for n, case in cases.items()}, last.exchanged)
    title = f"Figure {figure}: {of} messages, the number of queries"
    sizes = [("queries", f"{min(cases):,} to {max(cases):,}", "10 to 100,000"), _leaves(next(iter(cases.values())))]
    report.add(Table(title, columns, rows, sizes, checked), _plot(figure, title, "queries", cases, found, log=True))


_PARAMETERS = {
    "9": ("two-level messages, the number of leaves", "leaves"),
    "10": ("two-level messages, the Zipf parameter", "Zipf"),
    "12": ("three-level messages, value joins per query at most", "value joins"),
    "13": ("three-level messages, the Zipf parameter", "Zipf"),
}


def _by_parameter(report: Report, figure: str, cases: Mapping[float, Case], found: Mapping[Case, Found]) -> None:
    text, parameter = _PARAMETERS[figure]
    theirs = claims.TEMPLATES[figure]
    rows = [_row(value, found[case], theirs.get(int(value))) for value, case in cases.items()]
    columns = [parameter, *COUNTED, *(f"{name}, ms" for name in STRATEGIES)]
    times = {value: found[case].times for value, case in cases.items()}
    counts = {value: found[case].exchanged for value, case in cases.items()}
    case = next(iter(cases.values()))
    sizes = [("queries", f"{case.count:,}", "1,000"), *([] if figure == "9" else [_leaves(case)])]
    title = f"Figure {figure}: {text} ({case.count:,} queries)"
    report.add(Table(title, columns, rows, sizes, claims.by_parameter(figure, times, counts)))
    report.add(_plot(figure, title, parameter, cases, found))


def _leaves(case: Case) -> tuple[str, str, str]:
    count = len(case.schema.leaves)
    return "leaves of a message", str(count), "6" if count == 6 else "16"


def _plot(
    figure: str,
    title: str,
    x: str,
    cases: Mapping[float, Case] | Mapping[int, Case],
    found: Mapping[Case, Found],
    *,
    log: bool = False,
) -> Plot:
    xs = [float(value) for value in cases]
    lines = {name: (xs, [found[case].times[name].median for case in cases.values()]) for name in STRATEGIES}
    return Plot(f"figure{figure}", title, x, "ms of CPU", lines, log_x=log, log_y=True)


def _views(count: int, flat: Found, deep: Found) -> Table:
    rows: list[list[Cell]] = []
    gains: list[Spread] = []
    for title, found, theirs in (("14: two-level", flat, 6), ("15: three-level", deep, 22)):
        plain, views = found.times["mmqjp"], found.times["mmqjp-materialized"]
        gains.append(plain.over(views))
        rows.append(
            [title, found.templates, found.exchanged, theirs, found.results, plain, views, found.views, gains[-1]]
        )
    columns = ["figure", *COUNTED, "mmqjp, ms", "mmqjp-materialized, ms", "of which R_L and R_R, ms", "gain"]
    sizes = [("queries", f"{count:,}", "100,000")]
    title = f"Figures 14 and 15: view materialisation ({count:,} queries)"
    return Table(title, columns, rows, sizes, claims.views(*gains))


def _feeds(sizes: Sizes, progress: Progress) -> Table:
    """Figure 16: all strategies over the same first items of the stream, each from an empty state."""
    cases = [(count, 0, items, many, f"{count:,} as the paper's") for count, items, many in sizes.feeds]
    count, items, _ = sizes.feeds[-1]
    cases.append((count, 418, items, sizes.feeds[0][2], f"{count:,} distinct"))
    settings: dict[tuple[str, str], Callable[[], float]] = {}
    counted: dict[tuple[str, str], int] = {}
    distinct: dict[str, int] = {}
    for count, channels, items, many, title in cases:
        queries = list(islice(join_queries(feed(), channels=channels), count))
        distinct[title] = len({(frozenset(one.pairs), one.only) for one in queries})
        correlations = [one.correlation for one in queries]
        for name in STRATEGIES:
            settings[title, name] = _throughput(name, correlations, items, counted, (title, name))
        settings[title, "long"] = _throughput("default", correlations, many, counted, (title, "long"))
    rates = measure(settings, sizes.rounds, lambda key: progress.step(f"feed, {key[0]}: {key[1]}"))
    rows: list[list[Cell]] = []
    for _, _, items, many, title in cases:
        results = agreed([counted[title, name] for name in STRATEGIES])
        each = [rates[title, name] for name in STRATEGIES]
        rows.append([title, distinct[title], items, results, *each, many, counted[title, "long"], rates[title, "long"]])
    columns = ["queries", "distinct", "items", "results", *(f"{name}, items/s" for name in STRATEGIES)]
    columns += ["items for the default alone", "their results", "default alone, items/s"]
    by_count = {n: {name: rates[f"{n:,} as the paper's", name] for name in STRATEGIES} for n, _, _ in sizes.feeds}
    spans = ", ".join(f"{items:,}" for items in dict.fromkeys(items for _, items, _ in sizes.feeds))
    shape = [("items", f"{spans} (see the column)", "225,000"), ("items at a time", "1", "many, not told how many")]
    shape.append(("channels", "418, generated", "418, collected"))
    return Table("Figure 16: the feed stream", columns, rows, shape, claims.feeds(by_count), _FEEDS)


_FEEDS = """
All strategies process the same first items of the stream, one at a time, from an empty state; the default alone also
processes more of them, which the others would take hours for. The last row has distinct queries, each of which wants
two of 418 channels.
"""


def _throughput(
    name: str,
    correlations: Sequence[Correlation],
    items: int,
    counted: dict[tuple[str, str], int],
    key: tuple[str, str],
) -> Callable[[], float]:
    """Return a measurement of items per second; it also counts the results."""
    makers: dict[str, Callable[[], Sequential | Mmqjp | Default]] = {
        "sequential": Sequential,
        "mmqjp": Mmqjp,
        "mmqjp-materialized": MaterializedMmqjp,
        "default": partial(Default, limits=UNCUT),
    }

    def measured() -> float:
        arrivals = [Arrival(at, STREAM, at, xml) for at, xml in enumerate(islice(feed_items(), items), 1)]
        strategy = makers[name]()
        add_all(strategy, correlations)
        found = 0
        started = thread_time()
        for one in arrivals:
            if isinstance(strategy, Default):
                found += len(strategy.push(STREAM, False, one.time, b"", one.xml)[1])
            else:
                found += len(strategy.process(one))
        took = thread_time() - started
        counted[key] = found
        return items / took

    return measured
