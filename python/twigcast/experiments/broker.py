"""The broker paper's experiments (§6): PathSharing-F, -FW and -FWR, their optimisations, and shared post-processing.

The plans are the paper's, in the kernel; beside them stands what Twigcast uses by default. Times are of one thread,
per document and without parsing (MQPT), the least of some runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from time import thread_time

import pyarrow as pa

from twigcast import _kernel
from twigcast.constructor import Transform
from twigcast.experiments import broker_paper as paper
from twigcast.experiments import broker_remarks as remarks
from twigcast.experiments.assemble import assembled
from twigcast.experiments.report import Cell, Plot, Report, Table
from twigcast.limits import Limits
from twigcast.plan.codes import StepCodes
from twigcast.schema import Schema, dtd_schema, read_dtd
from twigcast.transform.encode import encoded
from twigcast.transform.plan import LEVELS, SHARING, Plan, Planner, profile
from twigcast.transform.plan.encode import encoded_plan
from twigcast.transform.plan.operators import Nothing
from twigcast.workload import DocumentGenerator, TransformGenerator, TransformSettings
from twigcast.workload.vocabularies import dtd_text

Parts = list[Table | Plot]
SHOWN = {"none": "no opt", "query": "opt(q)", "query+schema": "opt(q+dtd)"}
BEST = LEVELS[-1]
_LIMITS = Limits().of_kernel()


@dataclass(frozen=True)
class Sizes:
    """``bib`` and ``book`` are Q where it does not vary; ``shared_scale`` is for shared plans alone."""

    documents: int
    bib: int
    book: int
    bib_scale: tuple[int, ...]
    book_scale: tuple[int, ...]
    shared_scale: tuple[int, ...]
    runs: int = 3


FULL = Sizes(20, 5_000, 5_000, (5_000, 10_000, 20_000), (10_000, 20_000, 50_000), (100_000,))
QUICK = Sizes(5, 300, 300, (200, 400), (200, 400), (800,), 1)


# -- workloads


@dataclass(frozen=True)
class Workload:
    schema: Schema
    column: pa.Array
    queries: Callable[..., list[Transform]] = field(repr=False)


def workload(name: str, documents: int, max_value: int = 10) -> Workload:
    """The paper's documents: a bib of 20 books with up to five authors or editors; a book whose sections nest."""
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

    return Workload(dtd_schema(text), pa.array(maker.documents(documents), pa.binary()), queries)


# -- runs


class Run:
    """Plans in a kernel of their own; equal ones once, as in the paper's experiments."""

    def __init__(self, column: pa.Array, runs: int) -> None:
        self.kernel = _kernel.Transforms()
        self.codes = StepCodes(self.kernel)
        self.column = column
        self.runs = runs
        self.unique = 0
        self._seen: set[object] = set()

    def add(self, plan: Plan, *, shared: bool = False) -> None:
        if isinstance(plan.root, Nothing):
            return
        p = encoded_plan(plan, self.codes.__getitem__)
        key = (tuple(p.codes), tuple(p.program), tuple(p.constants))
        if key not in self._seen:
            self._seen.add(key)
            self.kernel.add_plan(self.unique, p.codes, p.program, p.constants, p.making, shared)
            self.unique += 1

    def add_own(self, transform: Transform) -> None:
        """As Twigcast does by default, which is not by plans."""
        e = encoded(transform, self.codes.__getitem__)
        self.kernel.add(self.unique, e.program, e.constants, e.making)
        self.unique += 1

    def milliseconds(self) -> float:
        """MQPT: from the parsed document to the last group."""
        self._timed("groups")  # paths are learnt from a first look at the documents
        whole = min(self._timed("groups") for _ in range(self.runs))
        read = min(self._timed("read") for _ in range(self.runs))
        return max(whole - read, 0.0) * 1e3 / len(self.column)

    def _timed(self, what: str) -> float:
        began = thread_time()
        self.kernel.count_column(self.column, what, _LIMITS)
        return thread_time() - began

    def costs(self, columns: Mapping[str, tuple[str, ...]]) -> list[Cell]:
        """Milliseconds per document by column, each of some kinds of operators, with the profiler on."""
        found = self.kernel.profile_column(self.column, _LIMITS)
        return [sum(found[kind][2] for kind in kinds) / 1e6 / len(self.column) for kinds in columns.values()]

    def groups(self) -> float:
        """Per document."""
        return self.kernel.count_column(self.column, "groups", _LIMITS)[1] / len(self.column)


def planned(work: Workload, plans: Sequence[Plan], sizes: Sizes) -> Run:
    run = Run(work.column, sizes.runs)
    for plan in plans:
        run.add(plan)
    return run


# -- the experiments


def run(quick: bool, say: Callable[[str], None]) -> Report:
    sizes = QUICK if quick else FULL
    command = "twigcast bench broker" + " --quick" * quick
    report = Report("broker", "Query processing for XML message brokering", command, paper.PREFACE)
    # Two at a time: most of the time goes into making plans, and what is measured is the time of one thread.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        # the longest first
        running = {name: pool.submit(_part, name, sizes) for name in reversed(PARTS)}
        for name in PARTS:
            parts = running[name].result()
            report.add(*parts)
            say("\n".join(part.title for part in parts if isinstance(part, Table)))
    return report


PARTS = ("basic", "predicates", "returns", "recursive", "growing", "shared")


def _part(name: str, sizes: Sizes) -> Parts:
    match name:
        case "basic":
            return basic(workload("bib", sizes.documents), sizes)
        case "predicates":
            return varied(workload("bib", sizes.documents), sizes, (1, 2, 3), paper.PREDICATES)
        case "returns":
            return varied(workload("bib", sizes.documents), sizes, (1, 2, 3, 4), paper.RETURNS)
        case "recursive":
            return recursive(workload("book", sizes.documents), sizes)
        case "growing":
            return growing(workload("bib", sizes.documents, 100), sizes)
    return shared(workload("book", sizes.documents, 100), sizes)


def basic(work: Workload, sizes: Sizes) -> Parts:
    """Expt. 1: Figure 7, Tables 2 and 3."""
    transforms = work.queries(sizes.bib)
    times, rows = _alternatives(work, transforms, sizes, paper.FIGURE_7)
    costs: list[list[Cell]] = []
    counts: list[list[Cell]] = []
    for level in LEVELS:
        plans = _plans(work, transforms, "FWR", level)
        costs.append([SHOWN[level], *planned(work, plans, sizes).costs(paper.TABLE_2)])
        costs.append([f"{SHOWN[level]}, published", *paper.PUBLISHED_2[level]])
        counts.append([SHOWN[level], *_counts(plans)])
        counts.append([f"{SHOWN[level]}, published", *paper.PUBLISHED_3[level]])
    title = f"Figure 7: MQPT of three alternatives (Bib, Q = {sizes.bib:,})"
    return [
        Table(title, HEADS, rows, remarks.alternatives(times, paper.TREE_SEARCH)),
        _by_level("figure-7", title, times),
        Table("Table 2: costs of operators (PathSharing-FWR)", ["ms", *paper.TABLE_2], costs, remarks.operators(costs)),
        Table("Table 3: operators of the plans (PathSharing-FWR)", paper.TABLE_3, counts, remarks.counts(counts)),
    ]


def varied(work: Workload, sizes: Sizes, values: Sequence[int], said: paper.Varied) -> Parts:
    """Expts. 2 and 3: Figures 8 and 9."""
    times: dict[str, list[float]] = {sharing: [] for sharing in SHARING}
    rows: list[list[Cell]] = []
    for value in values:
        transforms = work.queries(sizes.bib, **{said.setting: value})
        groups = 0.0
        for sharing in SHARING:
            one = planned(work, _plans(work, transforms, sharing, BEST), sizes)
            times[sharing].append(one.milliseconds())
            groups = one.groups()
        rows.append([value, *(times[sharing][-1] for sharing in SHARING), groups, said.published.get(value)])
    title = f"Figure {said.figure}: varying {said.short} (Bib, Q = {sizes.bib:,}, opt(q+dtd))"
    heads = [said.short, *HEADS[1:-1], "groups per document", "published"]
    lines = {f"PathSharing-{sharing}": (values, times[sharing]) for sharing in SHARING}
    remark = remarks.predicates(rows) if said.short == "PP" else remarks.growth(rows, "RP", paper.STREAMS)
    plot = Plot(f"figure-{said.figure}", title, said.short, "MQPT, ms", lines)
    return [Table(title, heads, rows, remark), plot]


def recursive(work: Workload, sizes: Sizes) -> Parts:
    """Figure 10."""
    times, rows = _alternatives(work, work.queries(sizes.book), sizes, paper.FIGURE_10)
    title = f"Figure 10: MQPT of three alternatives (Book, Q = {sizes.book:,})"
    return [
        Table(title, HEADS, rows, remarks.alternatives(times, paper.RECURSION)),
        _by_level("figure-10", title, times),
    ]


def growing(work: Workload, sizes: Sizes) -> Parts:
    """Figure 11: the queries of one size are the first of the next."""
    transforms = work.queries(sizes.bib_scale[-1])
    times: dict[str, list[float]] = {sharing: [] for sharing in SHARING}
    for sharing in SHARING:
        one = Run(work.column, sizes.runs)
        done = 0
        for count in sizes.bib_scale:
            for plan in _plans(work, transforms[done:count], sharing, BEST):
                one.add(plan)
            done = count
            times[sharing].append(one.milliseconds())
    rows: list[list[Cell]] = [
        [count, *(times[sharing][at] for sharing in SHARING)] for at, count in enumerate(sizes.bib_scale)
    ]
    title = "Figure 11: varying Q (Bib, opt(q+dtd), MaxValue 100)"
    lines = {f"PathSharing-{sharing}": (sizes.bib_scale, times[sharing]) for sharing in SHARING}
    table = Table(title, ["Q", *HEADS[1:-1]], rows, remarks.growth(rows, "Q", paper.NOTHING_SHARED))
    return [table, Plot("figure-11", title, "Q", "MQPT, ms", lines)]


def shared(work: Workload, sizes: Sizes) -> Parts:
    """Tables 4 and 5, Figure 12."""
    scale = (*sizes.book_scale, *sizes.shared_scale)
    transforms = work.queries(scale[-1])
    alone, together, own = (Run(work.column, sizes.runs) for _ in range(3))
    table_4: list[list[Cell]] = []
    table_5: list[list[Cell]] = []
    rows: list[list[Cell]] = []
    lines: dict[str, tuple[list[float], list[float]]] = {
        "no plan sharing": ([], []),
        "plan sharing": ([], []),
        "Twigcast": ([], []),
    }
    done = 0
    for count in scale:
        for transform in transforms[done:count]:
            own.add_own(transform)
        for plan in _plans(work, transforms[done:count], "FWR", BEST):
            together.add(plan, shared=True)
            if count <= sizes.book_scale[-1]:
                alone.add(plan)
        done = count
        times: list[Cell] = [None, together.milliseconds(), own.milliseconds()]
        if count <= sizes.book_scale[-1]:
            times[0] = alone.milliseconds()
            table_4.append([count, *alone.costs(paper.TABLE_4)])
            table_5.append([count, together.unique, *together.costs(paper.TABLE_5)])
        if count in paper.PUBLISHED_4:
            table_4.append([f"{count:,}, published", *paper.PUBLISHED_4[count]])
            table_5.append([f"{count:,}, published", *paper.PUBLISHED_5[count]])
        for (xs, ys), time in zip(lines.values(), times, strict=True):
            if isinstance(time, float):
                xs.append(together.unique)
                ys.append(time)
        rows.append([count, together.unique, *times, together.groups(), paper.FIGURE_12.get(count)])
    title = "Figure 12: varying the number of unique query plans (Book, opt(q+dtd), MaxValue 100)"
    heads = ["Q", "unique", "not shared, ms", "shared, ms", "Twigcast, ms", "groups per document", "published"]
    return [
        Table(
            "Table 4: costs as Q varies, no plan sharing (Book)",
            ["Q", *paper.TABLE_4],
            table_4,
            remarks.apart(table_4),
        ),
        Table(
            "Table 5: costs, plan sharing (Book)", ["Q", "unique", *paper.TABLE_5], table_5, remarks.together(table_5)
        ),
        Table(title, heads, rows, remarks.scaling(rows)),
        Plot("figure-12", title, "unique plans", "MQPT, ms", lines),
    ]


HEADS = ["", *(f"-{sharing}, ms" for sharing in SHARING), "published"]


def _alternatives(
    work: Workload, transforms: Sequence[Transform], sizes: Sizes, published: Mapping[str, str]
) -> tuple[dict[str, list[float]], list[list[Cell]]]:
    times: dict[str, list[float]] = {sharing: [] for sharing in SHARING}
    rows: list[list[Cell]] = []
    for level in LEVELS:
        for sharing in SHARING:
            one = planned(work, _plans(work, transforms, sharing, level), sizes)
            times[sharing].append(one.milliseconds())
        rows.append([SHOWN[level], *(times[sharing][-1] for sharing in SHARING), published[level]])
    return times, rows


def _plans(work: Workload, transforms: Sequence[Transform], sharing: str, level: str) -> list[Plan]:
    planner = Planner(sharing, level, work.schema)
    return [planner.plan(one) for one in transforms]


def _counts(plans: Sequence[Plan]) -> list[Cell]:
    found = profile(plans)
    joins = [found[f"{kind} {form}"] for kind in ("semijoin", "outer join") for form in ("hash", "merge")]
    return [*joins, found["dupelim"]]


def _by_level(name: str, title: str, times: dict[str, list[float]]) -> Plot:
    lines = {f"PathSharing-{sharing}": (range(len(LEVELS)), times[sharing]) for sharing in SHARING}
    return Plot(name, title, "", "MQPT, ms", lines, x_names=[SHOWN[level] for level in LEVELS])
