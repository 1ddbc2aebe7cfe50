"""The broker paper's experiments (§6): PathSharing-F, -FW and -FWR, their optimisations, and shared post-processing.

The plans are the paper's, in the kernel; beside them stands what Twigcast uses by default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import thread_time

import pyarrow as pa

from twigcast import _kernel
from twigcast.ir.transform import Transform
from twigcast.limits import Limits
from twigcast.papers.experiments import broker_claims as claims
from twigcast.papers.experiments import broker_paper as paper
from twigcast.papers.experiments.assemble import assembled
from twigcast.papers.experiments.claims import Claim
from twigcast.papers.experiments.measure import ROUNDS, Spread, measure, measure_rows
from twigcast.papers.experiments.report import Cell, Plot, Progress, Report, Say, Table
from twigcast.papers.plans import LEVELS, SHARING, Plan, Planner, profile
from twigcast.papers.plans.encode import encoded_plan
from twigcast.papers.plans.operators import Nothing
from twigcast.papers.transform_workload import TransformGenerator, TransformSettings
from twigcast.plan.codes import StepCodes
from twigcast.schema import Schema, dtd_schema, read_dtd
from twigcast.transform.encode import encoded
from twigcast.workload import DocumentGenerator
from twigcast.workload.vocabularies import dtd_text

Parts = list[Table | Plot]
SHOWN = {"none": "no opt", "query": "opt(q)", "query+schema": "opt(q+dtd)"}
BEST = LEVELS[-1]
PREDICATES = (1, 2, 3)
RETURNS = (1, 2, 3, 4)
# No budget cuts results: all alternatives make all groups.
_LIMITS = Limits(max_message_results=2**28, max_message_result_bytes=2**30).of_kernel()


@dataclass(frozen=True)
class Sizes:
    """How much is run. ``bib`` and ``book`` are Q where it does not vary; ``largest`` is for shared plans alone."""

    documents: int
    bib: int
    book: int
    bib_scale: tuple[int, ...]
    book_scale: tuple[int, ...]
    largest: int
    rounds: int


FULL = Sizes(20, 5_000, 10_000, (5_000, 10_000, 20_000, 40_000), (10_000, 20_000, 50_000), 110_000, ROUNDS)
QUICK = Sizes(5, 300, 300, (200, 400), (200, 400), 800, 2)


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


# -- engines


class Engine:
    """Plans, or transforms as Twigcast evaluates them. Equal plans run once only if ``unique`` says so."""

    def __init__(self, column: pa.Array, *, unique: bool = False) -> None:
        self._plans = _kernel.papers.Plans()
        self._default = _kernel.Engine()
        self._counter: _kernel.papers.Plans | _kernel.papers.GroupCounter = self._plans
        self.codes = StepCodes(self._plans)
        self.column = column
        self.plans = 0
        self.empty = 0
        """Plans that the DTD proves empty. They are not run."""
        self._unique = unique
        self._seen: set[object] = set()

    def add(self, plan: Plan, *, shared: bool = False) -> None:
        """Add a plan, which shares operators with others if ``shared``."""
        if isinstance(plan.root, Nothing):
            self.empty += 1
            return
        p = encoded_plan(plan, self.codes.__getitem__)
        if self._unique:
            key = (tuple(p.codes), tuple(p.program), tuple(p.constants))
            if key in self._seen:
                return
            self._seen.add(key)
        self._plans.add(self.plans, p.codes, p.program, p.constants, p.making, shared)
        self.plans += 1

    def add_default(self, transform: Transform) -> None:
        """Add a transform as Twigcast evaluates it. An engine has only these, or only plans."""
        if self._counter is self._plans:
            self._counter = _kernel.papers.GroupCounter(self._default)
            self.codes = StepCodes(self._default)
        e = encoded(transform, self.codes.__getitem__)
        (number,) = self._default.reserve(1)
        self._default.add_transform(number, e.program, e.constants, e.making, False)
        self.plans += 1

    def prepare(self) -> tuple[float, float]:
        """Let the kernel learn the paths of the documents, and return groups and matches per document."""
        matches, groups, _ = self._counter.count_column(self.column, "groups", _LIMITS)
        return groups / len(self.column), matches / len(self.column)

    def milliseconds(self) -> float:
        """Return MQPT: the time from the parsed document to the last group."""
        return max(self._seconds("groups") - self._seconds("read"), 0.0) * 1e3 / len(self.column)

    def _seconds(self, what: str) -> float:
        began = thread_time()
        self._counter.count_column(self.column, what, _LIMITS)
        return thread_time() - began

    def costs(self, columns: Mapping[str, tuple[str, ...]]) -> list[float]:
        """Return milliseconds per document by column, each of some kinds of operators, with the profiler on."""
        found = self._plans.profile_column(self.column, _LIMITS)
        return [sum(found[kind][2] for kind in kinds) / 1e6 / len(self.column) for kinds in columns.values()]


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


def counts_of(engines: Sequence[Engine]) -> Counts:
    """Return one number of each kind if all engines agree, else all of them."""
    found = [(one.plans, one.empty, *one.prepare()) for one in engines]
    return Counts(*(_agreed(list(column)) for column in zip(*found, strict=True)))


def _agreed(numbers: list[float]) -> Cell:
    return numbers[0] if len(set(numbers)) == 1 else " / ".join(f"{one:,.4g}" for one in numbers)


def planned(work: Workload, plans: Sequence[Plan]) -> Engine:
    """Return an engine that runs all plans."""
    engine = Engine(work.column)
    for plan in plans:
        engine.add(plan)
    return engine


def _plans(work: Workload, transforms: Sequence[Transform], sharing: str, level: str) -> list[Plan]:
    planner = Planner(sharing, level, work.schema)
    return [planner.plan(one) for one in transforms]


# -- the experiments


def run(quick: bool, say: Say) -> Report:
    """Run all experiments of the page."""
    return experiments(QUICK if quick else FULL, "twigcast bench broker" + " --quick" * quick, say)


def experiments(sizes: Sizes, command: str, say: Say) -> Report:
    """Run all experiments with these sizes."""
    report = Report("broker", "Query processing for XML message brokering", command, paper.PREFACE, sizes.rounds)
    bib = len(LEVELS) * len(SHARING) + (len(PREDICATES) + len(RETURNS) - 2) * len(SHARING)
    book = len(LEVELS) * len(SHARING)
    scale = len(sizes.bib_scale) * len(SHARING)
    engines = bib + book + scale + 3 * len(sizes.book_scale) + 2
    progress = Progress(engines * (1 + sizes.rounds), say)
    parts, times = non_recursive(workload("bib", sizes.documents), sizes, progress)
    report.add(*parts)
    report.add(*recursive(workload("book", sizes.documents), sizes, times, progress))
    report.add(*growing(workload("bib", sizes.documents, 100), sizes, progress))
    report.add(*shared(workload("book", sizes.documents, 100), sizes, progress))
    return report


Setting = tuple[int, int, str, str]
"""PP, RP, level of optimisation, sharing."""


def non_recursive(work: Workload, sizes: Sizes, progress: Progress) -> tuple[Parts, dict[tuple[str, str], Spread]]:
    """Figures 7, 8 and 9 and Tables 2 and 3, whose settings are measured in the same rounds."""
    varied = [(pp, 2) for pp in PREDICATES if pp != 1] + [(1, rp) for rp in RETURNS if rp != 2]
    settings = [(1, 2, level, sharing) for level in LEVELS for sharing in SHARING]
    settings += [(pp, rp, BEST, sharing) for pp, rp in varied for sharing in SHARING]
    engines: dict[Setting, Engine] = {}
    operators: dict[str, list[int]] = {}
    for pp, rp, level, sharing in settings:
        transforms = work.queries(sizes.bib, predicate_paths=pp, return_paths=rp)
        plans = _plans(work, transforms, sharing, level)
        engines[pp, rp, level, sharing] = planned(work, plans)
        if sharing == "FWR" and (pp, rp) == (1, 2):
            operators[level] = _operators(plans)
        progress.step(f"Bib, PP = {pp}, RP = {rp}, {SHOWN[level]}, -{sharing}: plans made")
    counts = {
        (pp, rp, level): counts_of([engines[pp, rp, level, sharing] for sharing in SHARING])
        for pp, rp, level, _ in settings
    }
    times = measure({key: one.milliseconds for key, one in engines.items()}, sizes.rounds, _steps(progress, "Bib"))
    costs = measure_rows(
        {level: partial(engines[1, 2, level, "FWR"].costs, paper.TABLE_2) for level in LEVELS}, sizes.rounds
    )
    basic = {(level, sharing): times[1, 2, level, sharing] for level in LEVELS for sharing in SHARING}
    parts = _alternatives(
        "7", "Bib", work.sizes(sizes.bib, 5_000), basic, {level: counts[1, 2, level] for level in LEVELS}
    )
    parts[0] = _with_claims(parts[0], claims.basic(basic))
    parts += [_costs_table(work, sizes, costs), _operators_table(sizes, operators)]
    for figure, short, values, place in (("8", "PP", PREDICATES, 0), ("9", "RP", RETURNS, 1)):
        by_value = {
            (value, sharing): times[(value, 2, BEST, sharing) if place == 0 else (1, value, BEST, sharing)]
            for value in values
            for sharing in SHARING
        }
        of = {value: counts[(value, 2, BEST) if place == 0 else (1, value, BEST)] for value in values}
        if short == "PP":
            checked = claims.predicates(by_value, {value: _first(one.matches) for value, one in of.items()})
        else:
            checked = claims.returns(by_value, {value: _first(one.groups) for value, one in of.items()})
        rows: list[list[Cell]] = [
            [value, *(by_value[value, sharing] for sharing in SHARING), *of[value].cells] for value in values
        ]
        title = f"Figure {figure}: varying {short} (Bib, Q = {sizes.bib:,}, opt(q+dtd))"
        parts.append(Table(title, [short, *HEADS, *COUNTED], rows, work.sizes(sizes.bib, 5_000), checked))
        lines = {f"PathSharing-{s}": (values, [by_value[value, s].median for value in values]) for s in SHARING}
        parts.append(Plot(f"figure-{figure}", title, short, "MQPT, ms", lines))
    return parts, basic


def recursive(work: Workload, sizes: Sizes, bib: Mapping[tuple[str, str], Spread], progress: Progress) -> Parts:
    """Figure 10."""
    transforms = work.queries(sizes.book)
    engines: dict[tuple[str, str], Engine] = {}
    for level in LEVELS:
        for sharing in SHARING:
            engines[level, sharing] = planned(work, _plans(work, transforms, sharing, level))
            progress.step(f"Book, {SHOWN[level]}, -{sharing}: plans made")
    counts = {level: counts_of([engines[level, sharing] for sharing in SHARING]) for level in LEVELS}
    times = measure({key: one.milliseconds for key, one in engines.items()}, sizes.rounds, _steps(progress, "Book"))
    parts = _alternatives("10", "Book", work.sizes(sizes.book, 10_000), times, counts)
    return [_with_claims(parts[0], claims.recursive(times, bib)), *parts[1:]]


def growing(work: Workload, sizes: Sizes, progress: Progress) -> Parts:
    """Figure 11. The queries of one size are the first of the next."""
    transforms = work.queries(sizes.bib_scale[-1])
    engines: dict[tuple[int, str], Engine] = {}
    for sharing in SHARING:
        plans = _plans(work, transforms, sharing, BEST)
        for count in sizes.bib_scale:
            engines[count, sharing] = planned(work, plans[:count])
            progress.step(f"Bib, Q = {count:,}, -{sharing}: plans made")
    counts = {count: counts_of([engines[count, sharing] for sharing in SHARING]) for count in sizes.bib_scale}
    times = measure({key: one.milliseconds for key, one in engines.items()}, sizes.rounds, _steps(progress, "Bib by Q"))
    rows: list[list[Cell]] = [
        [count, *(times[count, sharing] for sharing in SHARING), *counts[count].cells] for count in sizes.bib_scale
    ]
    title = "Figure 11: varying Q (Bib, opt(q+dtd), MaxValue 100)"
    shape = [("Q", f"{sizes.bib_scale[0]:,} to {sizes.bib_scale[-1]:,}", "5,000 to 40,000"), *work.sizes(None, None)]
    lines = {f"PathSharing-{s}": (sizes.bib_scale, [times[n, s].median for n in sizes.bib_scale]) for s in SHARING}
    checked = claims.growing(times, sizes.bib_scale)
    table = Table(title, ["Q", *HEADS, *COUNTED], rows, shape, checked)
    return [table, Plot("figure-11", title, "Q", "MQPT, ms", lines)]


WAYS = ("all", "alone", "shared", "default")
"""All plans apart; unique plans apart; unique plans that share operators; Twigcast's default, for all transforms."""


def shared(work: Workload, sizes: Sizes, progress: Progress) -> Parts:
    """Tables 4 and 5 and Figure 12."""
    scale = (*sizes.book_scale, sizes.largest)
    transforms = work.queries(scale[-1])
    plans = _plans(work, transforms, "FWR", BEST)
    engines: dict[tuple[int, str], Engine] = {}
    for count in scale:
        for way in WAYS if count < sizes.largest else WAYS[2:]:
            engine = engines[count, way] = Engine(work.column, unique=way in ("alone", "shared"))
            for plan, transform in zip(plans[:count], transforms[:count], strict=True):
                if way == "default":
                    engine.add_default(transform)
                else:
                    engine.add(plan, shared=way == "shared")
        progress.step(f"Book, Q = {count:,}: plans made")
    found = {key: engine.prepare() for key, engine in engines.items()}
    timed = {key: engine.milliseconds for key, engine in engines.items() if key[1] != "all"}
    times = measure(timed, sizes.rounds, _steps(progress, "Book by Q"))
    costs = measure_rows(
        {
            (count, way): partial(engines[count, way].costs, paper.TABLE_4 if way == "all" else paper.TABLE_5)
            for count in sizes.book_scale
            for way in ("all", "shared")
        },
        sizes.rounds,
    )
    table_4: list[list[Cell]] = []
    table_5: list[list[Cell]] = []
    for count in sizes.book_scale:
        apart, together = engines[count, "all"], engines[count, "shared"]
        table_4.append([count, apart.plans, apart.empty, *costs[count, "all"]])
        table_5.append([count, together.plans, together.empty, *costs[count, "shared"]])
        if count in paper.PUBLISHED_4:
            table_4.append([f"{count:,}, published", None, None, *paper.PUBLISHED_4[count]])
            unique, *rest = paper.PUBLISHED_5[count]
            table_5.append([f"{count:,}, published", unique, None, *rest])
    rows: list[list[Cell]] = []
    for count in scale:
        ms: list[Cell] = [times.get((count, way)) for way in WAYS[1:]]
        engine = engines[count, "shared"]
        published = paper.PUBLISHED_5.get(count)
        groups, matches = found[count, "shared"]
        theirs = published[0] if published else 100_000 if count == FULL.largest else None
        rows.append([count, engine.plans, theirs, *ms, engine.empty, groups, matches])
    title = "Figure 12: varying the number of unique query plans (Book, opt(q+dtd), MaxValue 100)"
    heads = ["Q", "unique plans run", "the paper's", "not shared, ms", "shared, ms", "Twigcast, ms", *COUNTED[1:]]
    last = sizes.book_scale[-1]
    scaling = claims.scaling(
        times[last, "alone"],
        times[last, "shared"],
        times[sizes.largest, "shared"],
        engines[sizes.largest, "shared"].plans,
    )
    by_count = {count: costs[count, "shared"] for count in sizes.book_scale}
    shape = work.sizes(None, None)
    counted = ["Q", "plans run", "plans proven empty"]
    lines = {
        label: (
            [engines[count, way].plans for count in scale if (count, way) in times],
            [times[count, way].median for count in scale if (count, way) in times],
        )
        for label, way in (("no plan sharing", "alone"), ("plan sharing", "shared"), ("Twigcast", "default"))
    }
    return [
        Table(
            "Table 4: costs as Q varies, no plan sharing, ms (Book, all plans)",
            [*counted, *paper.TABLE_4],
            table_4,
            shape,
            claims.apart(costs[last, "all"]),
        ),
        Table(
            "Table 5: costs as Q varies, plan sharing, ms (Book, unique plans)",
            ["Q", "unique plans run", "plans proven empty", *paper.TABLE_5],
            table_5,
            shape,
            claims.together(costs[last, "all"], by_count),
        ),
        Table(title, heads, rows, shape, scaling, _TWIGCAST),
        Plot("figure-12", title, "plans run", "MQPT, ms", lines),
    ]


_TWIGCAST = (
    "*Twigcast* is what Twigcast does by default: it shares by relative path, and needs neither claims nor a DTD."
)
HEADS = [f"-{sharing}, ms" for sharing in SHARING]


def _alternatives(
    figure: str,
    name: str,
    shape: list[tuple[str, str, str]],
    times: Mapping[tuple[str, str], Spread],
    counts: Mapping[str, Counts],
) -> Parts:
    """Return the table of Figure 7 or 10, without claims, and its plot."""
    rows: list[list[Cell]] = [
        [SHOWN[level], *(times[level, sharing] for sharing in SHARING), *counts[level].cells] for level in LEVELS
    ]
    title = f"Figure {figure}: MQPT of three alternatives ({name}, Q = {shape[0][1]})"
    lines = {f"PathSharing-{s}": (range(len(LEVELS)), [times[level, s].median for level in LEVELS]) for s in SHARING}
    plot = Plot(f"figure-{figure}", title, "", "MQPT, ms", lines, x_names=[SHOWN[level] for level in LEVELS])
    return [Table(title, ["", *HEADS, *COUNTED], rows, shape), plot]


def _with_claims(part: Table | Plot, checked: Sequence[Claim]) -> Table:
    assert isinstance(part, Table)
    return Table(part.title, part.columns, part.rows, part.sizes, checked)


def _costs_table(work: Workload, sizes: Sizes, costs: Mapping[str, Sequence[Spread]]) -> Table:
    rows: list[list[Cell]] = []
    for level in LEVELS:
        rows.append([SHOWN[level], *costs[level]])
        rows.append([f"{SHOWN[level]}, published", *paper.PUBLISHED_2[level]])
    title = "Table 2: costs of operators (PathSharing-FWR)"
    return Table(title, ["ms", *paper.TABLE_2], rows, work.sizes(sizes.bib, 5_000), claims.operators(costs))


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


def _steps(progress: Progress, name: str) -> Callable[[object], None]:
    return lambda key: progress.step(f"{name}: measured {key}")
