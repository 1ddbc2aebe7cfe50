"""How a correlation is evaluated: its join graph, the minor and the template of that, and the state it shares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass

from twigcast.correlate.canonical import canonical, without_windows
from twigcast.correlate.graph import JoinGraph, join_graph
from twigcast.correlate.minor import patterns
from twigcast.correlate.template import template_of
from twigcast.correlate.variables import Variables
from twigcast.ir.correlation import Correlation, Link, Ref
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
    template: int
    """Have the same template."""
    equal: int
    """Are the same but for windows, and the stream they publish."""


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
    minor: tuple[BoundVariable, ...]
    template: str | None
    meta_variables: tuple[str, ...]
    """The variables that the template's ``var1``, ``var2``, … stand for."""
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
        if self.template is not None:
            yield "minor", [_variable_text(one) for one in self.minor]
            meta = ", ".join(f"var{at} = {name}" for at, name in enumerate(self.meta_variables, 1))
            yield "template", [self.template, meta]
            yield "state", [_state_text(one) for one in self.state]
        if self.sharing is not None:
            of = self.sharing
            yield (
                "shared",
                [f"of {of.correlations:,} correlations, {of.equal:,} equal and {of.template:,} of the same template"],
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
    graph = join_graph(correlation)
    template, meta = None, tuple[str, ...]()
    minor_variables: tuple[BoundVariable, ...] = ()
    state: tuple[KeptState, ...] = ()
    every = None if others is None else list(others)
    if correlation.links:
        small, nodes = patterns(correlation)
        template, order = template_of(small)
        meta = tuple(_name(correlation, nodes[at].ref) for at in order)
        minor_variables = tuple(
            BoundVariable(
                _name(correlation, node.ref),
                correlation.blocks[node.ref.block].stream,
                None if node.parent is None else _name(correlation, nodes[node.parent].ref),
                str(node.twig),
            )
            for node in nodes
        )
        state = _state(correlation, small, every)
    sharing = None
    if every is not None:
        key = without_windows(canonical(correlation))
        templates = [template_of(patterns(one)[0])[0] for one in every if one.links]
        sharing = CorrelationSharing(
            len(every),
            sum(one == template for one in templates),
            sum(without_windows(canonical(one)) == key for one in every),
        )
    return CorrelationExplanation(
        query,
        "correlation",
        tuple(block.stream for block in correlation.blocks),
        correlation.publish,
        tuple(_name(correlation, ref) for ref in correlation.shown),
        tuple(_link(correlation, link) for link in correlation.links),
        tuple(_variable(correlation, node.label) for node in graph.nodes if node.label is not None),
        minor_variables,
        None if template is None else str(template),
        meta,
        state,
        sharing,
        None if never is None else str(never).partition(": ")[2],
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


def _state(correlation: Correlation, small: JoinGraph, others: list[Correlation] | None) -> tuple[KeptState, ...]:
    nodes = patterns(correlation)[1]
    variables = Variables()
    numbers = variables.add(correlation, nodes, small.joined)
    used: list[int] = [0] * len(numbers)
    for one in others or ():
        if one.links:
            found = set(variables.find(one, patterns(one)[1]))
            used = [count + (number in found) for count, number in zip(used, numbers, strict=True)]
    kept: list[KeptState] = []
    for at in sorted(small.joined):
        ref = nodes[at].ref
        operators = {edge.op for edge in small.edges if at in (edge.left, edge.right)}
        index = "by value" if operators & {"="} else "in order" if operators - {"!="} else "all values"
        kept.append(
            KeptState(
                correlation.blocks[ref.block].stream,
                _name(correlation, ref),
                variables.pattern(numbers[at]),
                index,
                window_text(_longest(correlation, ref.block)),
                None if others is None else used[at],
            )
        )
    return tuple(kept)


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
