"""The eXtract paper's measurements (section 5): chunked against unchunked, in both scenarios, by libxml2 and by us."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import thread_time
from typing import TypeVar

from twigcast.chunk.filter import Merge
from twigcast.chunk.formula import Found
from twigcast.chunk.prepare import Preparer
from twigcast.chunk.scheme import Answers, AnswerShape, Chunk, ExpressionShape, Fragment, Group, Scheme, path_text
from twigcast.engine import Subscription
from twigcast.papers.chunk_lxml import ENGINES, fragments
from twigcast.papers.experiments import chunking_claims as claims
from twigcast.papers.experiments import chunking_workload as workload
from twigcast.papers.experiments.measure import (
    PROCESSES,
    ROUNDS,
    Say,
    Spread,
    in_fresh_processes,
    measure_rows,
    merged,
    rough,
    seconds,
)
from twigcast.papers.experiments.report import Cell, Plot, Report, Table, Unit
from twigcast.schema import Schema, dtd_schema

T = TypeVar("T")

PREFACE = """
Each engine evaluates all queries on the document as it is (*unchunked*), and then on the fragments of the document that
the scheme of a degree makes, each against its own queries. Fragments are parsed like documents; that is part of the
times. Compiling queries is not: both sides do it once, before any document comes. Equal expressions are evaluated once,
on both sides. *Sequential* is chunking and all fragments one after the other, in CPU time; *parallel* is chunking and
the longest of the fragments, which is how the paper counts it: a sum of measured times, and not a run on several
processors. The paper's gain of 24 % is a time of 0.76 here; more than 1 is a loss.

The paper's engine is Jaxen on a DOM, for one query at a time; libxml2 (through lxml) is of that kind. Ours looks at a
document once for all queries, so that smaller documents with fewer queries each save it less; what chunking is for,
with our engine, are documents that do not fit into memory (docs/chunking.md).

*Longest* and *potpourri* are the times of these fragments. *First answers* is chunking and the quickest fragment.

The workloads are reconstructions, as neither documents nor queries were published: documents by the DTDs of A1 and A2,
queries by the kinds that the paper names. How many elements and queries there are below each prefix was adjusted until
the sizes of A1 and the prefixes of A3 came out. That these do shows what the algorithm does with such shares, and not
that the paper's workloads had them; gains are to be compared by their trend.
"""


@dataclass(frozen=True)
class Scenario:
    name: str
    xml: bytes
    schema: Schema
    queries: Callable[[int], list[str]]
    degrees: Sequence[int]


@dataclass(frozen=True)
class Sizes:
    """How much is run. ``elements`` is the size of the document of scenario 1. The descriptor is that of A3."""

    elements: int
    counts: tuple[int, ...]
    processes: int
    rounds: int


FULL = Sizes(130_000, (100, 500, 2_000), PROCESSES, ROUNDS)
QUICK = Sizes(13_000, (100, 500), 2, 1)


def run(quick: bool, say: Say) -> Report:
    """Run all experiments of the page."""
    report = experiments(QUICK if quick else FULL, "twigcast bench chunking" + " --quick" * quick, say)
    report.quick = quick
    return report


def experiments(sizes: Sizes, command: str, say: Say) -> Report:
    """Run all experiments with these sizes."""
    share = 0.02
    runs: list[list[Raw]] = in_fresh_processes(measured, sizes, sizes.processes, say, share)
    title = "Chunking: the experiments of eXtract"
    report = Report("chunking", title, command, PREFACE, sizes.processes, sizes.rounds)
    for scenario, found in zip(scenarios(sizes), zip(*runs, strict=True), strict=True):
        if any(one.matches != found[0].matches for one in found):
            raise AssertionError("processes have found different numbers of matches")
        times = merged([one.times for one in found])
        merged_times = Measured(
            {key[:2]: row[0] for key, row in times.items() if not key[2]},
            {key: Times(*row) for key, row in times.items() if key[2]},
            {
                (count, degree): pieces_of(scenario, count, degree)
                for count in sizes.counts
                for degree in scenario.degrees
            },
            found[0].matches,
        )
        # The chunks of A1 are those that 100 queries lead to; A3 has the percentages of any number.
        sized, count = (
            (_university_sizes, sizes.counts[0]) if scenario.name[0] == "1" else (_descriptor_sizes, sizes.counts[-1])
        )
        degrees = {degree: merged_times.pieces[count, degree] for degree in scenario.degrees}
        report.add(sized(scenario, count, degrees), *_gains(scenario, sizes.counts, merged_times))
    return report


def scenarios(sizes: Sizes) -> list[Scenario]:
    """Return both scenarios."""
    first = Scenario(
        "1, university",
        workload.university(sizes.elements),
        dtd_schema(workload.UNIVERSITY_DTD),
        workload.university_queries,
        (3, 4, 5),
    )
    second = Scenario(
        "2, EJB descriptor",
        workload.ejb_descriptor(),
        dtd_schema(workload.EJB_DTD),
        workload.ejb_queries,
        (2, 3, 4, 5, 6),
    )
    return [first, second]


# -- measurement


@dataclass(frozen=True)
class Pieces:
    """A chunking scheme and the fragments that it makes of the document."""

    scheme: Scheme
    fragments: list[Fragment]


@dataclass(frozen=True)
class Times:
    """Milliseconds of a document in chunks."""

    chunking: Spread
    longest: Spread
    potpourri: Spread
    sequential: Spread
    parallel: Spread
    first: Spread


@dataclass(frozen=True)
class Measured:
    """What was measured of a scenario: by engine, number of queries and degree."""

    whole: Mapping[tuple[str, int], Spread]
    chunked: Mapping[tuple[str, int, int], Times]
    pieces: Mapping[tuple[int, int], Pieces]
    matches: Mapping[int, int]


@dataclass
class Raw:
    """What one process has measured and counted: by engine, number of queries and degree (0: unchunked)."""

    times: dict[tuple[str, int, int], list[float]]
    matches: dict[int, int]


def measured(sizes: Sizes, at: int, say: Say) -> list[Raw]:
    """Measure both scenarios in this process. The first process compares the answers of all engines, too."""
    found = []
    for scenario in scenarios(sizes):
        found.append(measure(scenario, sizes.counts, list(ENGINES), sizes.rounds, verify=at == 0))
        say(f"scenario {scenario.name}", len(found) / 2)
    return found


def measure(
    scenario: Scenario, counts: Sequence[int], engines: Sequence[str], rounds: int, *, verify: bool = True
) -> Raw:
    """Measure a scenario with all numbers of queries, engines and degrees in the same rounds."""
    settings: dict[tuple[str, int, int], Callable[[], Sequence[float]]] = {}
    matches: dict[int, int] = {}
    for count in counts:
        queries = scenario.queries(count)
        pieces = {degree: pieces_of(scenario, count, degree) for degree in scenario.degrees}
        whole = unchunked(queries)
        matching = set(evaluate(whole, [Fragment(0, scenario.xml)], engines[0])[0])
        matches[count] = sum(query in matching for query in queries)
        for engine in engines:
            if verify:
                _verify(scenario, engine, queries, whole, list(pieces.values()), matching)
            settings[engine, count, 0] = _whole_run(whole, scenario.xml, engine)
            for degree, made in pieces.items():
                settings[engine, count, degree] = _chunked_run(made, scenario.xml, engine)
    return Raw(measure_rows(settings, rounds), matches)


def pieces_of(scenario: Scenario, count: int, degree: int) -> Pieces:
    """Return the scheme for so many queries and chunks, and the fragments that it makes of the document."""
    preparer = Preparer(scenario.schema, beside="filters")
    for i, query in enumerate(scenario.queries(count)):
        preparer.add(Subscription(i, query))
    scheme = preparer.scheme(degree)
    return Pieces(scheme, _chunked(scheme, scenario.xml))


def _verify(
    scenario: Scenario,
    engine: str,
    queries: Sequence[str],
    whole: Scheme,
    pieces: Sequence[Pieces],
    matching: set[str | int],
) -> None:
    """Raise if an engine finds something else, on the document or in chunks, than what is known to match."""
    if set(evaluate(whole, [Fragment(0, scenario.xml)], engine)[0]) != matching:
        raise AssertionError(f"scenario {scenario.name}: {engine} finds something else than the first engine")
    wanted = [query for query in queries if query in matching]
    for made in pieces:
        if [queries[int(one)] for one in evaluate(made.scheme, made.fragments, engine)[0]] != wanted:
            raise AssertionError(f"scenario {scenario.name}: {engine} finds something else in chunks")


def _whole_run(scheme: Scheme, xml: bytes, engine: str) -> Callable[[], Sequence[float]]:
    """Return a measurement of the document as it is, in milliseconds."""
    evaluator = ENGINES[engine](scheme)
    evaluator.evaluate(Fragment(0, b"<nothing/>"))  # compiles the queries
    return lambda: [1000 * seconds(partial(evaluator.evaluate, Fragment(0, xml)))]


def _chunked_run(made: Pieces, xml: bytes, engine: str) -> Callable[[], Sequence[float]]:
    """Return a measurement of the document in chunks, as ``Times`` has it."""
    evaluator = ENGINES[engine](made.scheme)
    for piece in made.fragments:
        evaluator.evaluate(Fragment(piece.chunk, b"<nothing/>"))  # compiles the queries

    def run() -> Sequence[float]:
        chunking = 1000 * seconds(partial(_chunked, made.scheme, xml))
        each = [1000 * seconds(partial(evaluator.evaluate, piece)) for piece in made.fragments]
        rest = sum(ms for ms, piece in zip(each, made.fragments, strict=True) if not piece.chunk)
        return [chunking, max(each), rest, chunking + sum(each), chunking + max(each), chunking + min(each)]

    return run


def unchunked(queries: Sequence[str]) -> Scheme:
    """Return a scheme that evaluates all queries on the document, equal ones once. A subscription's id is its query."""
    shapes = [ExpressionShape(Subscription(0, query), (query,)) for query in dict.fromkeys(queries)]
    groups = tuple(Group(shape, {(): number}) for number, shape in enumerate(shapes))
    found = tuple(AnswerShape("match", (shape,), Found(0)) for shape in shapes)
    answers = Answers(found, {shape.like.query: (number, number) for number, shape in enumerate(shapes)})
    return Scheme((), Chunk(0, (), (), groups, len(shapes), whole=True), answers)


def evaluate(scheme: Scheme, pieces: list[Fragment], engine: str) -> tuple[list[str | int], list[float]]:
    """Return the ids of the subscriptions that match and CPU seconds per fragment."""
    evaluator = ENGINES[engine](scheme)
    for piece in pieces:
        evaluator.evaluate(Fragment(piece.chunk, b"<nothing/>"))  # compiles the queries
    merge = Merge(scheme)
    times = []
    for piece in pieces:
        found, took = timed(partial(evaluator.evaluate, piece))
        merge.add(found)
        times.append(took)
    return [one.id for one in merge.answers()], times


def _chunked(scheme: Scheme, xml: bytes) -> list[Fragment]:
    return list(fragments(scheme, xml))


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Return the result and its CPU time: the best of several if one takes too little time to be measured."""
    began = thread_time()
    result = work()
    best = thread_time() - began
    for _ in range(4 if best < 0.1 else 0):
        start = thread_time()
        work()
        best = min(best, thread_time() - start)
    return result, best


# -- tables


def _kilobytes(piece: Fragment) -> float:
    return len(piece.xml) / 1000


def _elements(xml: bytes) -> int:
    return xml.count(b"</") + xml.count(b"/>")


def _university_sizes(scenario: Scenario, count: int, degrees: Mapping[int, Pieces]) -> Table:
    """Return the sizes of the fragments with those of A1."""
    rows: list[list[Cell]] = []
    for degree, made in degrees.items():
        chunks = sorted((_kilobytes(piece), piece) for piece in made.fragments if piece.chunk)
        rest = sum(_kilobytes(piece) for piece in made.fragments if not piece.chunk)
        padding: list[Cell] = [None] * (5 - len(chunks))
        rows.append([f"{degree}, ours", *(f"{size:,.0f}" for size, _ in chunks), *padding, f"{rest:,.0f}"])
        names = [path_text(made.scheme.chunks[piece.chunk - 1].prefix) for _, piece in chunks]
        rows.append([f"{degree}, our prefixes", *names, *padding, None])
        *theirs, potpourri = claims.A1[degree]
        rows.append([f"{degree}, the paper's", *sorted(theirs), *[None] * (5 - len(theirs)), potpourri])
    sizes = [
        ("document, kB", f"{len(scenario.xml) / 1000:,.0f}", "4,969 (A1); 4.85 MB (§5.1)"),
        ("elements", f"{_elements(scenario.xml):,}", "130,000 tags"),
        ("queries", f"{count:,}", "not told"),
    ]
    found = {
        degree: sorted(_kilobytes(piece) for piece in made.fragments if piece.chunk) for degree, made in degrees.items()
    }
    columns = ["chunks", *(f"chunk {i}, kB" for i in range(1, 6)), "potpourri, kB"]
    title = f"Scenario {scenario.name}: sizes of the fragments"
    return Table(title, columns, rows, sizes, claims.university_sizes(found), _POTPOURRI)


_POTPOURRI = (
    "Chunks are in the order of their sizes; A1 does not say which is whose. The potpourri is the whole document in the"
    " paper. Ours holds only what its queries look at."
)


def _descriptor_sizes(scenario: Scenario, count: int, degrees: Mapping[int, Pieces]) -> Table:
    """Return the prefixes, elements and shares of queries of the chunks with those of A3."""
    rows: list[list[Cell]] = []
    same = True
    for degree, made in degrees.items():
        theirs = dict(claims.A3[degree])
        for piece in made.fragments:
            chunk = made.scheme.chunks[piece.chunk - 1] if piece.chunk else made.scheme.potpourri
            prefix = path_text(chunk.prefix) or "potpourri"
            share, elements = theirs.pop(prefix, (None, None))
            same = same and share is not None
            row: list[Cell] = [degree, prefix, _elements(piece.xml), elements]
            rows.append([*row, f"{100 * chunk.weight / count:.0f} %", None if share is None else f"{share} %"])
        same = same and not theirs
        rows += [[degree, f"{prefix} (the paper's only)", None, n, None, f"{s} %"] for prefix, (s, n) in theirs.items()]
    sizes = [
        ("elements of the document", f"{_elements(scenario.xml):,}", "4,653 and the root (A3)"),
        ("queries", f"{count:,}", "not told"),
    ]
    columns = ["chunks", "prefix", "elements, ours", "elements, the paper's", "queries, ours", "queries, the paper's"]
    title = f"Scenario {scenario.name}: prefixes and sizes of the chunks"
    return Table(title, columns, rows, sizes, claims.descriptor_prefixes(same))


def _gains(scenario: Scenario, counts: Sequence[int], measured: Measured) -> list[Table | Plot]:
    parts: list[Table | Plot] = []
    number = scenario.name[0]
    for engine in ENGINES:
        first = measured.whole[engine, counts[0]]
        rows: list[list[Cell]] = []
        for count in counts:
            whole = measured.whole[engine, count]
            for degree in scenario.degrees:
                one = measured.chunked[engine, count, degree]
                row: list[Cell] = [count, measured.matches[count], degree, whole.over(first)]
                row += [one.chunking.over(whole), one.longest.over(whole)]
                row.append(one.potpourri.over(whole) if one.potpourri.highest else None)
                row += [took.over(whole) for took in (one.sequential, one.parallel, one.first)]
                rows.append([*row, claims.PUBLISHED[number].get((count, degree))])
        columns = ["queries", "matches", "chunks", "unchunked", "chunking", "longest", "potpourri"]
        columns += ["sequential", "parallel", "first answers after", "published gain"]
        times = {(count, 0, "whole"): measured.whole[engine, count] for count in counts}
        for count in counts:
            for degree in scenario.degrees:
                one = measured.chunked[engine, count, degree]
                for kind in ("chunking", "sequential", "parallel", "first"):
                    times[count, degree, kind] = getattr(one, kind)
        sizes = [
            ("document, kB", f"{len(scenario.xml) / 1000:,.0f}", "4,850" if number == "1" else "not told"),
            (
                "elements",
                f"{_elements(scenario.xml):,}",
                "130,000 tags" if number == "1" else "4,653 and the root (A3)",
            ),
            ("queries", f"{counts[0]:,} to {counts[-1]:,}", "100 to 2,000"),
            ("engine", "libxml2" if engine == "lxml" else "Twigcast", "Jaxen on a DOM"),
        ]
        checked = (
            claims.university(times, engine, counts) if number == "1" else claims.descriptor(times, engine, counts)
        )
        title = f"Scenario {scenario.name}: {engine}"
        of_one = Unit(
            "the time of the unchunked document with the same queries; in the column *unchunked* it is that with"
            f" {counts[0]:,} queries",
            f"{rough(first.median)} ms with {counts[0]:,} queries",
        )
        parts.append(Table(title, columns, rows, sizes, checked, unit=of_one))
        lines = {
            f"{count:,} queries, {kind}": (
                [float(degree) for degree in scenario.degrees],
                [100 * (1 - times[count, d, kind].over(times[count, 0, "whole"]).median) for d in scenario.degrees],
            )
            for count in counts
            for kind in ("sequential", "parallel")
        }
        parts.append(Plot(f"scenario{number}-{engine}", f"{title}: gain over unchunked", "chunks", "gain, %", lines))
    return parts
