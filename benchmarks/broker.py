"""Transforms: the broker paper's techniques against each other (broker §6), and our own engine at its sizes.

Times are for reading a message and for the groupSequence-listSequence format of all its results, as the paper's are but
for the reading; ``parse`` is our reader alone on the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any

import pyarrow as pa

from benchmarks.timing import Chunk, Line, Variant, chunks, interleaved, reader
from twigcast import _kernel
from twigcast.lang.flwr import parse_transform
from twigcast.limits import Limits
from twigcast.papers.options import PlanOptions
from twigcast.papers.plans.encode import encoded_plan
from twigcast.papers.plans.operators import Nothing
from twigcast.papers.plans.transforms import PlannedTransforms
from twigcast.papers.transform_workload import TransformGenerator, TransformSettings
from twigcast.plan.encode import StepCodes
from twigcast.schema import Schema, dtd_schema
from twigcast.transform.encode import encoded
from twigcast.workload import DocumentGenerator, vocabulary

DOCUMENTS = 20
RESULT = 150e-9
"""Seconds allowed for a group of a result."""
LIMITS = Limits().as_dict()
_CONSTANT = re.compile(r'= "(\d+)"')


def lines(quick: bool) -> Iterator[Line]:
    small = 10 if quick else 1
    yield from approaches(5_000 // small)
    yield from plan_sharing(50_000 // small)
    yield from own_engine(10_000 // small, 100_000 // small)
    yield identical()


def approaches(count: int) -> Iterator[Line]:
    """Figure 7: what the path engine is left to do, with all optimisations and no plan sharing."""
    documents = chunks(messages("bib", 10), 5)
    kernels = {
        sharing: registered("bib", count, 10, PlanOptions(sharing, "schema", share_plans=False)) for sharing in SHARING
    }
    took = interleaved({name: groups(kernel) for name, kernel in kernels.items()}, documents, repeat=5)
    note = ", ".join(f"-{name} {time / DOCUMENTS * 1e6:,.0f} µs" for name, time in took.items()) + " a message"
    for other in ("F", "FW"):
        name = f"-FWR over -{other}, Bib, {count:,}"
        yield Line("transforms", name, took[other] / took["FWR"], "times", 1, "higher", note)


SHARING = ("F", "FW", "FWR")


def plan_sharing(count: int) -> Iterator[Line]:
    """Figure 12 at one point: the same plans, each on its own and shared."""
    documents = chunks(messages("book", 100), 5)
    with_schema = PlanOptions("FWR", "schema", share_plans=False)
    kernels = {
        "single": registered("book", count, 100, with_schema, "single"),
        "shared": registered("book", count, 100, with_schema, "shared"),
        "own": registered("book", count, 100, PlanOptions()),
    }
    took = interleaved({name: groups(kernel) for name, kernel in kernels.items()}, documents, repeat=3)
    each = {name: time / DOCUMENTS * 1e6 for name, time in took.items()}
    note = f"{each['single']:,.0f} and {each['shared']:,.0f} µs a message; our own engine {each['own']:,.0f} µs, "
    note += f"{took['single'] / took['own']:.1f} times"
    yield Line(
        "transforms", f"plan sharing, Book, {count:,}", took["single"] / took["shared"], "times", 9, "higher", note
    )


def own_engine(few: int, many: int) -> Iterator[Line]:
    documents = chunks(messages("book", 100), 1)
    kernels = {"few": registered("book", few, 100, PlanOptions()), "many": registered("book", many, 100, PlanOptions())}
    variants: dict[str, Variant] = {"parse": reader, **{name: groups(kernel) for name, kernel in kernels.items()}}
    took = interleaved(variants, documents, repeat=10)
    column = pa.concat_arrays([part.batch.column("xml") for part in documents])
    found = {name: one.count_column(column, "groups", LIMITS)[1] for name, one in kernels.items()}
    net = {name: max(took[name] - RESULT * found[name], took["parse"]) for name in kernels}
    each = {name: time / DOCUMENTS * 1e6 for name, time in took.items()}
    note = (
        f"{each['few']:,.0f} and {each['many']:,.0f} µs a message, of which results {found['few'] // DOCUMENTS:,} and "
    )
    note += f"{found['many'] // DOCUMENTS:,} groups of 150 ns"
    yield Line(
        "transforms", f"Book, {many:,} : {few:,} plans, less results", net["many"] / net["few"], "times", 10, note=note
    )
    beyond = (took["many"] - RESULT * found["many"]) / took["parse"]
    note = f"parse {each['parse']:.2f} µs; with results {took['many'] / took['parse']:,.0f} parses, "
    note += f"{took['many'] / found['many'] * 1e9:,.0f} ns a group in all"
    yield Line("transforms", f"Book, {many:,} plans, less 150 ns a group", beyond, "parses", 50, note=note)


def identical() -> Line:
    """Output sharing: what is made for one is made for all."""
    documents = chunks(messages("book", 10), 5)
    text = "<r>{ for $v in //section where $v//p return <s>{ $v/title }{ $v//figure }</s> }</r>"
    kernels = {}
    for count in (1, 1_000):
        kernel = kernels[str(count)] = _kernel.Engine()
        one = encoded(parse_transform(text), StepCodes(kernel).__getitem__)
        for number in kernel.reserve(count):
            kernel.add_transform(number, one.program, one.constants, one.making, False)
    took = interleaved({name: made(kernel) for name, kernel in kernels.items()}, documents, repeat=20)
    note = f"{took['1'] / DOCUMENTS * 1e6:.1f} and {took['1000'] / DOCUMENTS * 1e6:.1f} µs a message, new messages made"
    return Line("transforms", "1,000 identical : 1", took["1000"] / took["1"], "times", 3, note=note)


# -- what is measured

Counter = _kernel.papers.Plans | _kernel.papers.GroupCounter


def groups(counter: Counter) -> Variant:
    def run(chunk: Chunk) -> None:
        counter.count_column(chunk.batch.column("xml"), "groups", LIMITS)

    return run


def made(kernel: _kernel.Engine) -> Variant:
    def run(chunk: Chunk) -> None:
        kernel.process(chunk.batch.column("xml"), 0, 1 << 30, 1 << 30, True)

    return run


# -- the paper's workload


@cache
def schema_of(name: str) -> Schema:
    return dtd_schema((files("twigcast.workload") / "dtds" / f"{name}.dtd").read_bytes())


# Bib: 20 books with up to five authors or editors. Book: sections in sections, some 83 elements in a document.
REPEATS: Mapping[str, Mapping[str, int | tuple[int, int]]] = {
    "bib": {"book": (20, 20), "author": 5, "editor": 5},
    "book": {"section": (2, 4), "p": (0, 4), "figure": (0, 4)},
}
DEPTH = {"bib": 4, "book": 5}
ELEMENTS = {"bib": 149, "book": 83}


def messages(name: str, max_value: int) -> list[bytes]:
    """Valid documents of about the paper's size."""
    maker = DocumentGenerator(
        vocabulary(name), depth=DEPTH[name], repeats=dict(REPEATS[name]), max_value=max_value, seed=5
    )
    valid = (one for one in maker.documents(2_000) if not schema_of(name).validate(one))
    return sorted(islice(valid, 200), key=lambda one: abs(one.count(b"</") - ELEMENTS[name]))[:DOCUMENTS]


def registered(name: str, count: int, max_value: int, options: PlanOptions, plans: str = "single") -> Counter:
    """Unique queries of the paper's generator. Queries that differ in constants are planned once."""
    settings = TransformSettings(binding_depth=2 if name == "bib" else 3, max_value=max_value)
    options = PlanOptions(options.sharing, options.optimize, options.share_plans, schema_of(name), "trust")
    kernel = _kernel.Engine()
    planned = None if options.own else PlannedTransforms(options)
    codes = StepCodes(kernel) if planned is None else planned.codes
    known: dict[str, Any] = {}
    for number, text in enumerate(TransformGenerator(vocabulary(name), settings).queries(count)):
        constants, shape = _CONSTANT.findall(text), _CONSTANT.sub("?", text)
        if shape not in known:
            known[shape] = _encoded(planned, text, codes)
        match known[shape]:
            case None:
                pass
            case ("own", program, making):
                kernel.add_transform(*kernel.reserve(1), program, constants, making, False)
            case ("plan", operators, program, making):
                assert planned is not None
                planned.plans.add(number, operators, program, constants, making, plans == "shared")
    return _kernel.papers.GroupCounter(kernel) if planned is None else planned.plans


def _encoded(planned: PlannedTransforms | None, text: str, codes: StepCodes) -> Any:
    transform, code = parse_transform(text), codes.__getitem__
    if planned is None:
        own = encoded(transform, code)
        return "own", own.program, own.making
    plan = planned._planner.plan(transform)
    if isinstance(plan.root, Nothing):
        return None
    one = encoded_plan(plan, code)
    return "plan", one.codes, one.program, one.making
