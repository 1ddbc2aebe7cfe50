"""The broker paper's experiments (§6): PathSharing-F, -FW and -FWR, their optimisations, and shared post-processing.

The plans are the paper's, in the kernel; beside them stands what Twigcast uses by default. Plans are made once, and
each process that measures gets them in the encoding of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from time import thread_time
from typing import Any

import pyarrow as pa

from twigcast import _kernel
from twigcast.ir.pattern import Step
from twigcast.ir.transform import Transform
from twigcast.limits import Limits
from twigcast.papers.experiments import broker_claims as claims
from twigcast.papers.experiments import broker_paper as paper
from twigcast.papers.experiments.assemble import assembled
from twigcast.papers.experiments.claims import Claim
from twigcast.papers.experiments.measure import (
    PROCESSES,
    ROUNDS,
    Say,
    Spread,
    in_fresh_processes,
    measure,
    measure_rows,
    merged,
    repeated,
    rough,
)
from twigcast.papers.experiments.report import Cell, Plot, Progress, Report, Table, Unit
from twigcast.papers.plans import LEVELS, SHARING, Plan, Planner, profile
from twigcast.papers.plans.encode import EncodedPlan, encoded_plan
from twigcast.papers.plans.operators import Nothing
from twigcast.papers.transform_workload import TransformGenerator, TransformSettings
from twigcast.plan.encode import StepCodes
from twigcast.schema import Schema, dtd_schema, read_dtd
from twigcast.transform.encode import Encoded, encoded
from twigcast.workload import DocumentGenerator
from twigcast.workload.vocabularies import dtd_text

Parts = list[Table | Plot]
SHOWN = {"none": "no opt", "query": "opt(q)", "query+schema": "opt(q+dtd)"}
BEST = LEVELS[-1]
PREDICATES = (1, 2, 3)
RETURNS = (1, 2, 3, 4)
PROFILED = 3
# No budget cuts results: all alternatives make all groups.
_LIMITS = Limits(max_message_results=2**28, max_message_result_bytes=2**30).as_dict()


@dataclass(frozen=True)
class Sizes:
    """How much is run. ``bib`` and ``book`` are Q where it does not vary; ``largest`` is for shared plans alone."""

    documents: int
    bib: int
    book: int
    bib_scale: tuple[int, ...]
    book_scale: tuple[int, ...]
    largest: int
    processes: int
    rounds: int


FULL = Sizes(20, 5_000, 10_000, (5_000, 10_000, 20_000, 40_000), (10_000, 20_000, 50_000), 110_000, PROCESSES, ROUNDS)
QUICK = Sizes(5, 300, 300, (200, 400), (200, 400), 800, 2, 2)


# -- workloads


@dataclass(frozen=True)
class Workload:
    """Documents of one DTD, and a generator of queries for them."""

    name: str
    schema: Schema
    column: pa.Array
    queries: Callable[..., list[Transform]] = field(repr=False)

    def sizes(self, queries: int | None, theirs: int | None) -> list[tuple[str, str, str]]:
        """Return the sizes that all rows of a table share, with the paper's."""
        elements = sum(xml.as_py().count(b"</") + xml.as_py().count(b"/>") for xml in self.column) / len(self.column)
        fixed = [] if queries is None else [("Q", f"{queries:,}", f"{theirs:,}")]
        return [
            *fixed,
            ("documents", f"{len(self.column):,}", paper.DOCUMENTS),
            ("elements per document", f"{elements:.0f}", paper.ELEMENTS[self.name]),
        ]


def workload(name: str, documents: int, max_value: int = 10) -> Workload:
    """Make the paper's documents: a bib of 20 books with up to five authors or editors, or a book of sections."""
    text = dtd_text(name)
    dtd = read_dtd(text)
    make = partial(DocumentGenerator, dtd, max_value=max_value, seed=1)
    if name == "bib":
        maker = make(depth=4, repeats={"book": (20, 20), "author": (1, 5), "editor": (1, 5)})
    else:
        maker = make(depth=5, max_repeats=2, repeats={"section": (2, 6)})

    def queries(count: int, **settings: int) -> list[Transform]:
        depth = 2 if name == "bib" else 3
        made = TransformSettings(binding_depth=depth, max_value=max_value, **settings)
        return [assembled(query) for query in TransformGenerator(dtd, made).queries(count)]

    return Workload(name, dtd_schema(text), pa.array(maker.documents(documents), pa.binary()), queries)


# -- plans and engines


@dataclass(frozen=True)
class Encodings:
    """Plans, or transforms as Twigcast evaluates them, in the encoding of the kernel: in order, None for an empty plan.

    ``steps`` has the codes of steps, in the order in which a kernel has to number them.
    """

    items: list[EncodedPlan | Encoded | None]
    steps: dict[Step, int]


def encoded_plans(plans: Sequence[Plan]) -> Encodings:
    """Encode plans. One that the DTD proves empty has no encoding."""
    codes = StepCodes(_kernel.papers.Plans())
    items = [None if isinstance(one.root, Nothing) else encoded_plan(one, codes.__getitem__) for one in plans]
    return Encodings(list(items), dict(codes))


def encoded_transforms(transforms: Sequence[Transform]) -> Encodings:
    """Encode transforms as Twigcast evaluates them."""
    codes = StepCodes(_kernel.Engine())
    return Encodings([encoded(one, codes.__getitem__) for one in transforms], dict(codes))


class Engine:
    """Runs the first ``count`` of some plans or transforms. Equal plans run once only if ``unique`` says so."""

    def __init__(
        self,
        column: pa.Array,
        encodings: Encodings,
        count: int | None = None,
        *,
        unique: bool = False,
        shared: bool = False,
    ) -> None:
        self._plans = _kernel.papers.Plans()
        self._default = _kernel.Engine()
        self._counter: _kernel.papers.Plans | _kernel.papers.GroupCounter = self._plans
        self.column = column
        self.plans = 0
        self.empty = 0
        """Plans that the DTD proves empty. They are not run."""
        items = encodings.items[:count]
        if any(isinstance(item, Encoded) for item in items):
            self._counter = _kernel.papers.GroupCounter(self._default)
        codes = StepCodes(self._plans if self._counter is self._plans else self._default)
        if {step: codes[step] for step in encodings.steps} != encodings.steps:
            raise AssertionError("the kernel numbers steps in another way than when they were encoded")
        seen: set[object] = set()
        for item in items:
            if item is None:
                self.empty += 1
            elif isinstance(item, Encoded):
                (number,) = self._default.reserve(1)
                self._default.add_transform(number, item.program, item.constants, item.making, False)
                self.plans += 1
            else:
                key = (tuple(item.codes), tuple(item.program), tuple(item.constants)) if unique else None
                if unique and key in seen:
                    continue
                seen.add(key)
                self._plans.add(self.plans, item.codes, item.program, item.constants, item.making, shared)
                self.plans += 1

    def prepare(self) -> tuple[float, float]:
        """Let the kernel learn the paths of the documents, and return groups and matches per document."""
        matches, groups, _ = self._counter.count_column(self.column, "groups", _LIMITS)
        return groups / len(self.column), matches / len(self.column)

    def milliseconds(self) -> float:
        """Return MQPT: the time from the parsed document to the last group."""
        found = repeated(partial(self._seconds, "groups")) - repeated(partial(self._seconds, "read"))
        return max(found, 0.0) * 1e3 / len(self.column)

    def _seconds(self, what: str) -> float:
        began = thread_time()
        self._counter.count_column(self.column, what, _LIMITS)
        return thread_time() - began

    def costs(self, columns: Mapping[str, tuple[str, ...]]) -> list[float]:
        """Return milliseconds per document by column, each of some kinds of operators, with the profiler on.

        The profiler looks at the clock of the machine. So each document is run several times, and the median counts.
        """
        totals = [0.0] * len(columns)
        for at in range(len(self.column)):
            runs = [self._plans.profile_column(self.column.slice(at, 1), _LIMITS) for _ in range(PROFILED)]
            for column, kinds in enumerate(columns.values()):
                totals[column] += median(sum(found[kind][2] for kind in kinds) for found in runs)
        return [nanoseconds / 1e6 / len(self.column) for nanoseconds in totals]


@dataclass(frozen=True)
class Counts:
    """What the engines of one row of a table have run and found. They must agree, or each number is shown."""

    plans: Cell
    empty: Cell
    groups: Cell
    matches: Cell

    @property
    def cells(self) -> list[Cell]:
        return [self.plans, self.empty, self.groups, self.matches]


COUNTED = ["plans run", "plans proven empty", "groups per document", "matches per document"]


Count = tuple[int, int, float, float]
"""Plans run, plans proven empty, groups and matches per document."""


def counts_of(found: Sequence[Count]) -> Counts:
    """Return one number of each kind if all engines agree, else all of them."""
    return Counts(*(_agreed(list(column)) for column in zip(*found, strict=True)))


def _agreed(numbers: list[float]) -> Cell:
    return numbers[0] if len(set(numbers)) == 1 else " / ".join(f"{one:,.4g}" for one in numbers)


def _plans(work: Workload, transforms: Sequence[Transform], sharing: str, level: str) -> list[Plan]:
    planner = Planner(sharing, level, work.schema)
    return [planner.plan(one) for one in transforms]


# -- what is measured

Setting = tuple[int, int, str, str]
"""PP, RP, level of optimisation, sharing."""
WAYS = ("all", "alone", "shared", "default")
"""All plans apart; unique plans apart; unique plans that share operators; Twigcast's default, for all transforms."""


def settings_of_bib() -> list[Setting]:
    """Return the settings of Figures 7, 8 and 9, each once."""
    varied = [(pp, 2) for pp in PREDICATES if pp != 1] + [(1, rp) for rp in RETURNS if rp != 2]
    basic = [(1, 2, level, sharing) for level in LEVELS for sharing in SHARING]
    return basic + [(pp, rp, BEST, sharing) for pp, rp in varied for sharing in SHARING]


@dataclass(frozen=True)
class Prepared:
    """All plans, encoded, and the documents: what a process needs to measure."""

    sizes: Sizes
    columns: Mapping[str, pa.Array]
    """By figure: 7 (also 8 and 9), 10, 11 and 12."""
    bib: Mapping[Setting, Encodings]
    book: Mapping[tuple[str, str], Encodings]
    growing: Mapping[str, Encodings]
    shared: Encodings
    default: Encodings


def prepared(sizes: Sizes, works: Mapping[str, Workload], say: Say) -> tuple[Prepared, dict[str, list[int]]]:
    """Make and encode all plans, and count the operators of Table 3 by level."""
    progress = Progress(len(settings_of_bib()) + len(LEVELS) * len(SHARING) + len(SHARING) + 1, say)
    bib: dict[Setting, Encodings] = {}
    operators: dict[str, list[int]] = {}
    for pp, rp, level, sharing in settings_of_bib():
        transforms = works["7"].queries(sizes.bib, predicate_paths=pp, return_paths=rp)
        plans = _plans(works["7"], transforms, sharing, level)
        bib[pp, rp, level, sharing] = encoded_plans(plans)
        if sharing == "FWR" and (pp, rp) == (1, 2):
            operators[level] = _operators(plans)
        progress.step(f"Bib, PP = {pp}, RP = {rp}, {SHOWN[level]}, -{sharing}: plans made")
    transforms = works["10"].queries(sizes.book)
    book: dict[tuple[str, str], Encodings] = {}
    for level in LEVELS:
        for sharing in SHARING:
            book[level, sharing] = encoded_plans(_plans(works["10"], transforms, sharing, level))
            progress.step(f"Book, {SHOWN[level]}, -{sharing}: plans made")
    transforms = works["11"].queries(sizes.bib_scale[-1])
    growing: dict[str, Encodings] = {}
    for sharing in SHARING:
        growing[sharing] = encoded_plans(_plans(works["11"], transforms, sharing, BEST))
        progress.step(f"Bib, Q to {sizes.bib_scale[-1]:,}, -{sharing}: plans made")
    transforms = works["12"].queries(sizes.largest)
    shared = encoded_plans(_plans(works["12"], transforms, "FWR", BEST))
    columns = {figure: work.column for figure, work in works.items()}
    made = Prepared(sizes, columns, bib, book, growing, shared, encoded_transforms(transforms))
    progress.step(f"Book, Q to {sizes.largest:,}: plans made")
    return made, operators


@dataclass
class Found:
    """What one process has measured and counted, by figure and setting."""

    times: dict[object, list[float]] = field(default_factory=dict)
    counts: dict[object, Count] = field(default_factory=dict)


def measured(made: Prepared, at: int, say: Say) -> Found:
    """Measure all settings in this process."""
    sizes, found = made.sizes, Found()
    bib = {("7", *key): Engine(made.columns["7"], encodings) for key, encodings in made.bib.items()}
    _measure(bib, sizes, found)
    costs: dict[object, Callable[[], Sequence[float]]] = {
        ("costs", "7", level): partial(bib["7", 1, 2, level, "FWR"].costs, paper.TABLE_2) for level in LEVELS
    }
    found.times |= measure_rows(costs, sizes.rounds)
    say("Figures 7 to 9", 0.35)
    _measure({("10", *key): Engine(made.columns["10"], one) for key, one in made.book.items()}, sizes, found)
    say("Figure 10", 0.5)
    scale = {
        ("11", count, sharing): Engine(made.columns["11"], one, count)
        for sharing, one in made.growing.items()
        for count in sizes.bib_scale
    }
    _measure(scale, sizes, found)
    say("Figure 11", 0.75)
    shared: dict[object, Engine] = {}
    for count in (*sizes.book_scale, sizes.largest):
        for way in WAYS if count < sizes.largest else WAYS[2:]:
            encodings = made.default if way == "default" else made.shared
            unique = way in ("alone", "shared")
            shared["12", count, way] = Engine(
                made.columns["12"], encodings, count, unique=unique, shared=way == "shared"
            )
    _measure(shared, sizes, found)
    costs_by_count: dict[object, Callable[[], Sequence[float]]] = {
        ("costs", count, way): partial(shared["12", count, way].costs, paper.TABLE_4 if way == "all" else paper.TABLE_5)
        for count in sizes.book_scale
        for way in ("all", "shared")
    }
    found.times |= measure_rows(costs_by_count, sizes.rounds)
    say("Figure 12", 1.0)
    return found


def _measure(engines: Mapping[Any, Engine], sizes: Sizes, found: Found) -> None:
    for key, one in engines.items():
        found.counts[key] = (one.plans, one.empty, *one.prepare())
    found.times |= measure({key: one.milliseconds for key, one in engines.items()}, sizes.rounds)


# -- the experiments


def run(quick: bool, say: Say) -> Report:
    """Run all experiments of the page."""
    report = experiments(QUICK if quick else FULL, "twigcast bench broker" + " --quick" * quick, say)
    report.quick = quick
    return report


def experiments(sizes: Sizes, command: str, say: Say) -> Report:
    """Run all experiments with these sizes."""
    works = {
        "7": workload("bib", sizes.documents),
        "10": workload("book", sizes.documents),
        "11": workload("bib", sizes.documents, 100),
        "12": workload("book", sizes.documents, 100),
    }
    share = 0.2
    made, operators = prepared(sizes, works, lambda text, part: say(text, share * part))
    runs: list[Found] = in_fresh_processes(measured, made, sizes.processes, say, share)
    if any(one.counts != runs[0].counts for one in runs):
        raise AssertionError("processes have found different numbers of groups or matches")
    all_found = Merged(merged([one.times for one in runs]), runs[0].counts)
    report = Report(
        "broker", "Query processing for XML message brokering", command, paper.PREFACE, sizes.processes, sizes.rounds
    )
    report.add(*non_recursive(works["7"], sizes, all_found, operators))
    report.add(*recursive(works["10"], sizes, all_found))
    report.add(*growing(works["11"], sizes, all_found))
    report.add(*shared(works["12"], sizes, all_found))
    return report


@dataclass(frozen=True)
class Merged:
    """What all processes have measured, and counted."""

    numbers: Mapping[object, Sequence[Spread]]
    counts: Mapping[object, Count]

    def time(self, *key: object) -> Spread:
        """Return the time of a setting."""
        return self.numbers[key][0]


def unit(text: str, one: Spread) -> Unit:
    """Return the unit of a table, with its time here."""
    return Unit(f"the time of {text}", f"{rough(one.median)} ms per document")


def non_recursive(work: Workload, sizes: Sizes, found: Merged, operators: Mapping[str, list[int]]) -> Parts:
    """Figures 7, 8 and 9 and Tables 2 and 3."""
    times = {key: found.time("7", *key) for key in settings_of_bib()}
    counts = {
        (pp, rp, level): counts_of([found.counts["7", pp, rp, level, sharing] for sharing in SHARING])
        for pp, rp, level, _ in times
    }
    basic = {(level, sharing): times[1, 2, level, sharing] for level in LEVELS for sharing in SHARING}
    one = basic["none", "F"]
    of_one = unit("-F without optimisation, in Figure 7", one)
    parts: Parts = _alternatives(
        "7",
        "Bib",
        work.sizes(sizes.bib, 5_000),
        basic,
        {level: counts[1, 2, level] for level in LEVELS},
        claims.basic(basic),
        of_one,
    )
    costs = {level: found.numbers["costs", "7", level] for level in LEVELS}
    parts += [_costs_table(work, sizes, costs), _operators_table(sizes, operators)]
    for figure, short, values, place in (("8", "PP", PREDICATES, 0), ("9", "RP", RETURNS, 1)):
        by_value = {
            (value, sharing): times[(value, 2, BEST, sharing) if place == 0 else (1, value, BEST, sharing)]
            for value in values
            for sharing in SHARING
        }
        of = {value: counts[(value, 2, BEST) if place == 0 else (1, value, BEST)] for value in values}
        if short == "PP":
            checked = claims.predicates(by_value, {value: _first(some.matches) for value, some in of.items()})
        else:
            checked = claims.returns(by_value, {value: _first(some.groups) for value, some in of.items()})
        rows: list[list[Cell]] = [
            [value, *(by_value[value, sharing].over(one) for sharing in SHARING), *of[value].cells] for value in values
        ]
        title = f"Figure {figure}: varying {short} (Bib, Q = {sizes.bib:,}, opt(q+dtd))"
        shape = work.sizes(sizes.bib, 5_000)
        parts.append(Table(title, [short, *HEADS, *COUNTED], rows, shape, checked, unit=of_one))
        lines = {
            f"PathSharing-{s}": (values, [by_value[value, s].over(one).median for value in values]) for s in SHARING
        }
        parts.append(Plot(f"figure-{figure}", title, short, MQPT, lines))
    return parts


def recursive(work: Workload, sizes: Sizes, found: Merged) -> Parts:
    """Figure 10."""
    counts = {level: counts_of([found.counts["10", level, sharing] for sharing in SHARING]) for level in LEVELS}
    times = {(level, sharing): found.time("10", level, sharing) for level in LEVELS for sharing in SHARING}
    bib = {(level, sharing): found.time("7", 1, 2, level, sharing) for level in LEVELS for sharing in SHARING}
    shape = work.sizes(sizes.book, 10_000)
    of_one = unit("-F without optimisation", times["none", "F"])
    return _alternatives("10", "Book", shape, times, counts, claims.recursive(times, bib), of_one)


def growing(work: Workload, sizes: Sizes, found: Merged) -> Parts:
    """Figure 11. The queries of one size are the first of the next."""
    times = {(count, sharing): found.time("11", count, sharing) for count in sizes.bib_scale for sharing in SHARING}
    one = times[sizes.bib_scale[0], "F"]
    rows: list[list[Cell]] = []
    for count in sizes.bib_scale:
        counts = counts_of([found.counts["11", count, sharing] for sharing in SHARING])
        rows.append([count, *(times[count, sharing].over(one) for sharing in SHARING), *counts.cells])
    title = "Figure 11: varying Q (Bib, opt(q+dtd), MaxValue 100)"
    shape = [("Q", f"{sizes.bib_scale[0]:,} to {sizes.bib_scale[-1]:,}", "5,000 to 40,000"), *work.sizes(None, None)]
    lines = {
        f"PathSharing-{s}": (sizes.bib_scale, [times[n, s].over(one).median for n in sizes.bib_scale]) for s in SHARING
    }
    checked = claims.growing(times, sizes.bib_scale)
    of_one = unit(f"-F with {sizes.bib_scale[0]:,} queries", one)
    table = Table(title, ["Q", *HEADS, *COUNTED], rows, shape, checked, unit=of_one)
    return [table, Plot("figure-11", title, "Q", MQPT, lines)]


def shared(work: Workload, sizes: Sizes, found: Merged) -> Parts:
    """Tables 4 and 5 and Figure 12."""
    first, last = sizes.book_scale[0], sizes.book_scale[-1]
    scale = (*sizes.book_scale, sizes.largest)
    times = {key[1:]: one[0] for key, one in found.numbers.items() if isinstance(key, tuple) and key[0] == "12"}
    costs = {(n, way): found.numbers["costs", n, way] for n in sizes.book_scale for way in ("all", "shared")}
    total = costs[first, "all"][-1]
    theirs = paper.PUBLISHED_4[10_000][-1]
    table_4: list[list[Cell]] = []
    table_5: list[list[Cell]] = []
    for count in sizes.book_scale:
        for table, way in ((table_4, "all"), (table_5, "shared")):
            plans, empty, _, _ = found.counts["12", count, way]
            table.append([count, plans, empty, *(cost.over(total) for cost in costs[count, way])])
        if count in paper.PUBLISHED_4:
            published = [ms / theirs for ms in paper.PUBLISHED_4[count]]
            table_4.append([f"{count:,}, published", None, None, *published])
            unique, *rest = paper.PUBLISHED_5[count]
            table_5.append([f"{count:,}, published", unique, None, *(ms / theirs for ms in rest)])
    one = times[first, "alone"]
    rows: list[list[Cell]] = []
    for count in scale:
        found_times = [times.get((count, way)) for way in WAYS[1:]]
        plans, empty, groups, matches = found.counts["12", count, "shared"]
        published_plans = paper.PUBLISHED_5[count][0] if count in paper.PUBLISHED_5 else None
        theirs_of = 100_000 if count == FULL.largest else published_plans
        cells: list[Cell] = [ms and ms.over(one) for ms in found_times]
        rows.append([count, plans, theirs_of, *cells, empty, groups, matches])
    title = "Figure 12: varying the number of unique query plans (Book, opt(q+dtd), MaxValue 100)"
    heads = ["Q", "unique plans run", "the paper's", "not shared", "shared", "Twigcast", *COUNTED[1:]]
    scaling = claims.scaling(
        times[last, "alone"],
        times[last, "shared"],
        times[sizes.largest, "shared"],
        found.counts["12", sizes.largest, "shared"][0],
    )
    shape = work.sizes(None, None)
    lines = {
        label: (
            [found.counts["12", count, way][0] for count in scale if (count, way) in times],
            [times[count, way].over(one).median for count in scale if (count, way) in times],
        )
        for label, way in (("no plan sharing", "alone"), ("plan sharing", "shared"), ("Twigcast", "default"))
    }
    of_total = Unit(
        f"the time of all operators with {first:,} queries and no plan sharing, and in published rows the paper's,"
        f" {theirs} ms",
        unit("", total).absolute,
    )
    return [
        Table(
            "Table 4: costs as Q varies, no plan sharing (Book, all plans)",
            ["Q", "plans run", "plans proven empty", *paper.TABLE_4],
            table_4,
            shape,
            claims.apart(costs[last, "all"]),
            unit=of_total,
        ),
        Table(
            "Table 5: costs as Q varies, plan sharing (Book, unique plans)",
            ["Q", "unique plans run", "plans proven empty", *paper.TABLE_5],
            table_5,
            shape,
            claims.together(costs[last, "all"], {count: costs[count, "shared"] for count in sizes.book_scale}),
            unit=of_total,
        ),
        Table(title, heads, rows, shape, scaling, _TWIGCAST, unit(f"{first:,} queries without plan sharing", one)),
        Plot("figure-12", title, "plans run", MQPT, lines),
    ]


_TWIGCAST = (
    "*Twigcast* is what Twigcast does by default: it shares by relative path, and needs neither claims nor a DTD."
)
HEADS = [f"-{sharing}" for sharing in SHARING]
MQPT = "MQPT, 1 as in the table"


def _alternatives(
    figure: str,
    name: str,
    shape: list[tuple[str, str, str]],
    times: Mapping[tuple[str, str], Spread],
    counts: Mapping[str, Counts],
    checked: Sequence[Claim],
    of_one: Unit,
) -> Parts:
    """Return the table of Figure 7 or 10, and its plot."""
    one = times["none", "F"]
    rows: list[list[Cell]] = [
        [SHOWN[level], *(times[level, sharing].over(one) for sharing in SHARING), *counts[level].cells]
        for level in LEVELS
    ]
    title = f"Figure {figure}: MQPT of three alternatives ({name}, Q = {shape[0][1]})"
    lines = {
        f"PathSharing-{s}": (range(len(LEVELS)), [times[level, s].over(one).median for level in LEVELS])
        for s in SHARING
    }
    plot = Plot(f"figure-{figure}", title, "", MQPT, lines, x_names=[SHOWN[level] for level in LEVELS])
    return [Table(title, ["", *HEADS, *COUNTED], rows, shape, checked, unit=of_one), plot]


def _costs_table(work: Workload, sizes: Sizes, costs: Mapping[str, Sequence[Spread]]) -> Table:
    first, *others = costs["none"]
    total = sum(others, first)
    theirs = sum(paper.PUBLISHED_2["none"])
    rows: list[list[Cell]] = []
    for level in LEVELS:
        rows.append([SHOWN[level], *(cost.over(total) for cost in costs[level])])
        rows.append([f"{SHOWN[level]}, published", *(ms / theirs for ms in paper.PUBLISHED_2[level])])
    of_total = Unit(
        f"the time of all operators without optimisation, and in published rows the paper's, {theirs} ms",
        unit("", total).absolute,
    )
    title = "Table 2: costs of operators (PathSharing-FWR)"
    shape = work.sizes(sizes.bib, 5_000)
    return Table(title, ["", *paper.TABLE_2], rows, shape, claims.operators(costs), unit=of_total)


def _operators_table(sizes: Sizes, found: Mapping[str, list[int]]) -> Table:
    rows: list[list[Cell]] = []
    for level in LEVELS:
        rows.append([SHOWN[level], *found[level]])
        rows.append([f"{SHOWN[level]}, published", *paper.PUBLISHED_3[level]])
    title = "Table 3: operators of the plans (PathSharing-FWR)"
    shape = [("Q", f"{sizes.bib:,}", "5,000")]
    return Table(title, paper.TABLE_3, rows, shape, claims.counts(found, sizes.bib))


def _operators(plans: Sequence[Plan]) -> list[int]:
    found = profile(plans)
    joins = [found[f"{kind} {form}"] for kind in ("semijoin", "outer join") for form in ("hash", "merge")]
    return [*joins, found["dupelim"]]


def _first(cell: Cell) -> float:
    """Return the number of a cell of counts."""
    assert isinstance(cell, int | float), f"the alternatives of a row disagree: {cell}"
    return float(cell)
