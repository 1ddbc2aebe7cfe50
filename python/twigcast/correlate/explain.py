"""How a correlation is evaluated: its join graph, and the state that it shares with others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass

from twigcast.correlate.default import Default, Prepared
from twigcast.correlate.encode import path_of, twig_of
from twigcast.ir.correlation import Correlation, Link, Ref
from twigcast.ir.pattern import Twig
from twigcast.lang.unsatisfiable import never_matches
from twigcast.lang.xscl import parse_correlation, window_text


@dataclass(frozen=True, slots=True)
class BoundVariable:
    """``path`` leads from the variable ``above``, or from the message's root."""

    name: str
    stream: str
    above: str | None
    path: str


@dataclass(frozen=True, slots=True)
class ExplainedLink:
    kind: str
    predicates: tuple[str, ...]
    window: str


@dataclass(frozen=True, slots=True)
class KeptState:
    """What is kept of the messages of a stream: the values of a variable, for as long as a window asks."""

    stream: str
    variable: str
    pattern: str
    index: str
    window: str
    shared_by: int | None
    """How many of the other correlations look for the same; None: not asked."""


@dataclass(frozen=True, slots=True)
class CorrelationSharing:
    correlations: int
    shape: int
    """How many differ in constants and the last window at most, and in what is made of the messages found."""
    equal: int
    """How many of these have the same constants, too: they are evaluated together with this one, as one query."""


@dataclass(frozen=True, slots=True)
class CorrelationExplanation:
    """``str()`` is for people, ``as_dict()`` for programs."""

    query: str
    kind: str
    streams: tuple[str, ...]
    publishes: str | None
    shows: tuple[str, ...]
    links: tuple[ExplainedLink, ...]
    join_graph: tuple[BoundVariable, ...]
    state: tuple[KeptState, ...]
    sharing: CorrelationSharing | None
    never: str | None = None
    """Why no messages can match; None if some may."""

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    def sections(self) -> Iterator[tuple[str, list[str]]]:
        yield "query", [self.query]
        yield "kind", [f"correlation (XSCL) of {len(self.streams)} block{'s' * (len(self.streams) != 1)}"]
        if self.never is not None:
            yield "never", self.never.splitlines()
        yield "streams", [", ".join(one or "(any)" for one in dict.fromkeys(self.streams))]
        yield "join graph", [_variable_text(one) for one in self.join_graph]
        for link in self.links:
            words = "followed by, within " if link.kind == "followed" else "join, at most apart "
            yield "value joins", [*link.predicates, words + link.window]
        if self.links:
            yield "state", [_state_text(one) for one in self.state]
        if self.sharing is not None:
            of = self.sharing
            yield (
                "shared",
                [f"of {of.correlations:,} correlations, {of.shape:,} of the same shape, {of.equal:,} of them equal"],
            )
        yield "shows", [", ".join(self.shows) or "no variable"]
        if self.publishes is not None:
            yield "publishes", [self.publishes]

    def __str__(self) -> str:
        found = [f"{h if i == 0 else '':<12}{line}" for h, lines in self.sections() for i, line in enumerate(lines)]
        return "\n".join(found)


def explain_correlation(
    query: str,
    *,
    namespaces: Mapping[str, str] | None = None,
    default_namespace: str | None = None,
    others: Iterable[Correlation] | None = None,
) -> CorrelationExplanation:
    """``others``: also tell what it shares with how many of these."""
    correlation = parse_correlation(query, namespaces, default_namespace)
    never = never_matches(query, namespaces, default_namespace)
    every = None if others is None else list(others)
    return CorrelationExplanation(
        query,
        "correlation",
        tuple(block.stream for block in correlation.blocks),
        correlation.publish,
        tuple(_name(correlation, ref) for ref in correlation.shown),
        tuple(_link(correlation, link) for link in correlation.links),
        tuple(
            _variable(correlation, Ref(at, number))
            for at, block in enumerate(correlation.blocks)
            for number in range(len(block.variables))
        ),
        _state(correlation, every),
        None if every is None else _sharing(correlation, every),
        None if never is None else str(never).partition(": ")[2],
    )


def _sharing(correlation: Correlation, others: list[Correlation]) -> CorrelationSharing:
    backend = Default()
    this = backend.prepare(correlation)
    those = [backend.prepare(one) for one in others]
    return CorrelationSharing(
        len(others),
        sum(_shape(one) == _shape(this) for one in those),
        sum((_shape(one), one.constants) == (_shape(this), this.constants) for one in those),
    )


def _shape(one: Prepared) -> tuple[object, ...]:
    """Return what a correlation has in common with those that differ in constants and the last window only."""
    shape = one.shape
    return (
        (shape.blocks, shape.compared, shape.shown),
        [link.kind for link in shape.links],
        [link.window for link in shape.links[:-1]],
    )


def _name(correlation: Correlation, ref: Ref) -> str:
    name = correlation.variable(ref).name
    # Unnamed variables are numbered block by block.
    return f"{name}.{ref.block + 1}" if name.startswith("_") else name


def _variable(correlation: Correlation, ref: Ref) -> BoundVariable:
    variable = correlation.variable(ref)
    above = None if variable.parent is None else _name(correlation, Ref(ref.block, variable.parent))
    return BoundVariable(_name(correlation, ref), correlation.blocks[ref.block].stream, above, variable.path.text)


def _link(correlation: Correlation, link: Link) -> ExplainedLink:
    predicates = [f"{_name(correlation, one.left)} {one.op} {_name(correlation, one.right)}" for one in link.predicates]
    return ExplainedLink(link.kind, tuple(predicates), window_text(link.window))


def _state(correlation: Correlation, others: list[Correlation] | None) -> tuple[KeptState, ...]:
    used: Counter[tuple[str, Twig]] = Counter()
    for one in others or ():
        used.update({_column(one, ref) for ref in _compared(one)})
    kept: list[KeptState] = []
    for ref in _compared(correlation):
        operators = {one.op for one in correlation.predicates if ref in (one.left, one.right)}
        kept.append(
            KeptState(
                correlation.blocks[ref.block].stream,
                _name(correlation, ref),
                _pattern(correlation, ref),
                "by value" if operators & {"="} else "in order" if operators - {"!="} else "all values",
                window_text(_longest(correlation, ref.block)),
                None if others is None else used[_column(correlation, ref)],
            )
        )
    return tuple(kept)


def _compared(correlation: Correlation) -> list[Ref]:
    return sorted({ref for one in correlation.predicates for ref in (one.left, one.right)})


def _column(correlation: Correlation, ref: Ref) -> tuple[str, Twig]:
    """Return the column in which the kernel keeps the values of a variable."""
    block = correlation.blocks[ref.block]
    return block.stream, path_of(block, ref.variable)


def _pattern(correlation: Correlation, ref: Ref) -> str:
    """Return the path from the document to a variable, with its conditions."""
    block, at = correlation.blocks[ref.block], ref.variable
    nodes = list(twig_of(block, at).nodes)
    while (parent := block.variables[at].parent) is not None:
        at = parent
        nodes[:0] = twig_of(block, at).nodes
    text = str(Twig(tuple(nodes)))
    return text[1:] if text.startswith(".") else f"/{text}"


def _longest(correlation: Correlation, block: int) -> int | None:
    """How long a message of a block may have to wait for the rest of its chain; None: for ever."""
    total = 0
    for at in range(max(block - 1, 0), len(correlation.links)):
        window = correlation.links[at].window
        if window is None:
            return None
        total += window
    return total


def _variable_text(one: BoundVariable) -> str:
    above = (one.stream or "(any)") if one.above is None else one.above
    if one.path.startswith("."):
        return f"{one.name} = {above}{one.path[1:]}"
    return f"{one.name} = {above}{'' if one.path.startswith('/') else '/'}{one.path}"


def _state_text(one: KeptState) -> str:
    shared = "" if one.shared_by is None else f", shared with {one.shared_by:,}"
    return f"{one.variable}: {one.stream or '(any)'}{one.pattern} {one.index}, for {one.window}{shared}"
