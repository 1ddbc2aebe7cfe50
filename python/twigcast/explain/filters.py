"""How a query is evaluated: read off the plan that the engine itself makes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from twigcast.common.text import in_columns
from twigcast.engine import Engine, Subscription
from twigcast.engine.compiler import undecided
from twigcast.errors import Span, caret
from twigcast.ir.decompose import BranchPoint, Decomposition, Star, decompose, star_of
from twigcast.ir.pattern import (
    TRUE,
    Bool,
    Compiled,
    LinearPath,
    Pattern,
    Predicate,
    Residual,
    Structural,
    predicate_text,
    twig_text,
)
from twigcast.lang.compile import compile_query
from twigcast.lang.kinds import ambiguity
from twigcast.lang.printer import to_text, to_xpath
from twigcast.lang.shape import Template
from twigcast.lang.unsatisfiable import never_matches
from twigcast.lang.xpath import parse
from twigcast.plan.access import ANYWAY, ValuePath
from twigcast.plan.encode import NotEncodable
from twigcast.plan.planner import Plan, plan
from twigcast.plan.slots import slotted

_INDEXES = {
    "path step": "by hash, as the last step of the path",
    "access": "by hash, as the last step of the path that leads here",
    "guard": "by hash, as the last step of a guard, while all of the bucket have this constant",
    "column": "a column of the bucket, compared for all its subscriptions at once",
    "search": "compared for each subscription that a message reaches",
}


@dataclass(frozen=True, slots=True)
class ValuePredicate:
    path: str
    test: str
    index: str
    """``path step``, ``access``, ``guard``, ``inline``, ``column`` or ``search``."""


@dataclass(frozen=True, slots=True)
class Access:
    """A path by which messages reach the query; with ``value``, one to a node of this value."""

    path: str
    value: str | float | None = None

    def __str__(self) -> str:
        return self.path if self.value is None else f"{self.path} = {self.value!r}"


@dataclass(frozen=True, slots=True)
class WhyResidual:
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Sharing:
    """Of so many subscriptions, how many share what; None: not counted."""

    subscriptions: int
    path: int | None
    """Have one of its paths, with the same value."""
    shape: int | None = None
    """Differ in constants at most."""
    equal: int | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a query is evaluated. ``str()`` is for people, ``as_dict()`` for programs."""

    query: str
    kind: str
    """``paths``, ``pattern`` or ``residual``."""
    pattern: str
    """In canonical form, from the document; for a residual query, the query itself."""
    shape: str | None
    """The shared part with ``?`` for each string and ``?n`` for each number that is a constant."""
    constants: tuple[str | float, ...]
    selects: tuple[str, ...] | None
    """The nodes that are its result; None for one that is no node-set, or a residual one."""
    linear_paths: tuple[str, ...]
    branch_points: tuple[BranchPoint, ...]
    values: tuple[ValuePredicate, ...]
    access: tuple[Access, ...]
    access_why: str
    guards: tuple[Access, ...]
    """Further paths that must be there before the pattern is evaluated."""
    evaluation: str
    """``paths``, ``star``, ``search`` or ``none`` (nothing to check, or nothing shared to check)."""
    evaluation_why: str
    shared: str | None
    """What the shared engine decides: all of it, the necessary pattern of a residual query, or nothing."""
    residual: tuple[WhyResidual, ...]
    sharing: Sharing | None
    cost: str
    """``none``, ``path``, ``value``, ``pattern``, ``pattern on every message``, ``evaluator behind a pattern`` or
    ``evaluator``."""
    cost_why: str
    language: str = "filter (XPath)"
    """What the text is taken for."""
    note: str | None = None
    """What else the text may have been meant for, and how to write that."""
    never: str | None = None
    """Why no message can match; None if some may."""

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    def sections(self) -> Iterator[tuple[str, list[str]]]:
        """Headings and their lines."""
        yield "query", [self.query]
        how = {"paths": "paths, shared", "pattern": "tree pattern, shared"}.get(self.kind, self._residual())
        yield "kind", [f"{self.language}: {how}", *([self.note] if self.note else [])]
        if self.never is not None:
            yield "never", self.never.splitlines()
            yield "cost", [f"{self.cost}: {self.cost_why}"]
            return
        yield ("residual" if self.kind == "residual" else "pattern"), [self.pattern]
        for reason in self.residual:
            yield "because", [reason.text, *caret(self.query, Span(reason.start, reason.end))]
        if self.kind == "residual":
            yield "shared", [self.shared or "nothing"]
        if self.shape is not None:
            yield "shape", [self.shape]
        if self.constants:
            yield "constants", [", ".join(map(repr, self.constants))]
        if self.selects is not None:
            yield "selects", list(self.selects) or ["nothing"]
        if self.linear_paths:
            yield "paths", list(self.linear_paths)
        if self.branch_points:
            yield "branches", [_branch_text(one) for one in self.branch_points]
        if self.values:
            yield "values", [f"{one.path}: {one.test}, {_INDEXES[one.index]}" for one in self.values]
        yield "reached by", [" or ".join(map(str, self.access)), self.access_why]
        if self.guards:
            yield "guards", [" and ".join(map(str, self.guards)), "looked up before anything is evaluated"]
        yield "evaluated", [self.evaluation_why]
        if self.sharing is not None:
            yield "sharing", list(_sharing_text(self.sharing))
        yield "cost", [f"{self.cost}: {self.cost_why}"]

    def _residual(self) -> str:
        return "residual, the XPath evaluator has the last word" + (
            ", a shared pattern the first" if self.shared else ""
        )

    def __str__(self) -> str:
        return "\n".join(in_columns(self.sections()))


def explain(
    query: str,
    *,
    namespaces: Mapping[str, str] | None = None,
    default_namespace: str | None = None,
    dialect: str = "w3c",
    subscriptions: Iterable[Subscription] | None = None,
    engine: Engine | None = None,
) -> Explanation:
    """How the query would be evaluated, among ``subscriptions`` or those of ``engine``; raises QueryError.

    An engine keeps no queries: of its subscriptions it is known only how many have the very path that this query is.
    """
    scratch = _Scratch()
    subscription = Subscription(0, query, namespaces, default_namespace, dialect)
    compiled = compile_query(query, namespaces, default_namespace, dialect=dialect)
    planned = plan(compiled)
    actual = scratch.encoded(subscription, Template(planned), ()).plan
    sharing = None
    if subscriptions is not None:
        sharing = _census(subscription, subscriptions, _Scratch(namespaces))
    elif engine is not None:
        only = actual.paths[0] if actual.kind == "paths" and len(actual.paths) == 1 else None
        plain = only is not None and only.slot is None
        sharing = Sharing(len(engine), engine.sharers(LinearPath(only.steps)) if only and plain else None)
    return _explained(subscription, compiled, actual, sharing)


def _explained(s: Subscription, compiled: Compiled, actual: Plan, sharing: Sharing | None) -> Explanation:
    program = _program(compiled, actual)
    parts = Decomposition([_path_text(one) for one in actual.paths]) if program is None else decompose(program)
    residual = actual.residual
    if residual is not None:
        pattern = to_text(parse(s.query, s.namespaces, s.default_namespace, dialect=s.dialect))
    else:
        pattern = _pattern_text(compiled)
    shared: str | None = pattern
    if residual is not None:
        shared = None if residual.necessary is None else predicate_text(residual.necessary)
    access, guards = _accesses(actual, actual.paths), _accesses(actual, actual.guards)
    shape = None if program is None else predicate_text(program, masked=True)
    evaluation, evaluation_why = _evaluation(actual, program)
    cost, cost_why = _cost(actual, access, guards)
    never = never_matches(s.query, s.namespaces, s.default_namespace, dialect=s.dialect)
    if never is not None:
        access, guards = (), ()
        evaluation, evaluation_why = "none", "it never matches, whatever the message"
        cost, cost_why = "none", "the query never matches"
    return Explanation(
        query=s.query,
        kind=actual.kind,
        pattern=pattern,
        shape=pattern if isinstance(compiled, Structural) else shape,
        constants=actual.constants,
        selects=_selects(compiled) if residual is None else None,
        linear_paths=tuple(parts.paths) if program is not None or residual is None else (),
        branch_points=tuple(parts.branch_points),
        values=tuple(ValuePredicate(one.path, one.text, _index(actual, one.slot)) for one in parts.tests),
        access=access,
        access_why=_access_why(actual),
        guards=guards,
        evaluation=evaluation,
        evaluation_why=evaluation_why,
        shared=shared,
        residual=tuple(WhyResidual(r.text, r.span.start, r.span.end) for r in residual.reasons) if residual else (),
        sharing=sharing,
        cost=cost,
        cost_why=cost_why,
        note=ambiguity(s.query),
        never=None if never is None else str(never).partition(": ")[2],
    )


def _program(compiled: Compiled, actual: Plan) -> Predicate | None:
    """The shared condition with slots, whether the kernel gets it as a program or as mere paths."""
    if actual.program is not None:
        return actual.program
    condition = None
    if actual.residual is not None:
        condition = actual.residual.necessary
    elif isinstance(compiled, Pattern):
        condition = compiled.condition
    return None if condition is None else slotted(condition)[0]


def _pattern_text(compiled: Compiled) -> str:
    match compiled:
        case Structural(path):
            return str(path)
        case Pattern(condition):
            return predicate_text(condition)
        case Residual(expr=expr):
            return to_xpath(expr)[0]


def _selects(compiled: Compiled) -> tuple[str, ...] | None:
    match compiled:
        case Structural(path):
            return (str(path),)
        case Pattern(_, selects, pick) if selects is not None:
            nodes = [
                twig_text(one.twig) + ("" if one.guard == TRUE else f" if {predicate_text(one.guard)}")
                for one in selects
            ]
            return tuple(nodes) if pick is None else (f"({' | '.join(nodes)})[{predicate_text(pick)}]",)
    return None


def _path_text(path: ValuePath) -> str:
    return str(LinearPath(path.steps))


def _accesses(actual: Plan, paths: tuple[ValuePath, ...]) -> tuple[Access, ...]:
    value = actual.constants.__getitem__
    return tuple(Access(_path_text(one), None if one.slot is None else value(one.slot.index)) for one in paths)


def _index(actual: Plan, slot: int) -> str:
    if actual.program is None:
        return "path step"
    leads, guards = ({p.slot.index for p in paths if p.slot is not None} for paths in (actual.paths, actual.guards))
    if slot in leads:
        return "access"
    if slot in guards:
        return "guard"
    star = star_of(actual.program)
    return "column" if star is not None and slot in star.slots else "search"


def _access_why(actual: Plan) -> str:
    ways = actual.paths
    if ways == (ANYWAY,) and (actual.program is not None or actual.residual is not None):
        return "which every message has: no other path or value is common to all that match"
    if actual.program is None:
        return "having the path is all there is to it" if len(actual.paths) == 1 else "having any of them is enough"
    each = "; one for each alternative" if len(ways) > 1 else ""
    if all(path.slot is not None for path in ways):
        return f"an equality: few messages have the very value, so it goes before any mere path{each}"
    if any(path.slot is not None for path in ways):
        return f"equalities where there are any, else the longest path that must be there{each}"
    return f"no equality must hold, so the longest path that must be there{each}"


def _evaluation(actual: Plan, program: Predicate | None) -> tuple[str, str]:
    if actual.program is None:
        if actual.residual is not None and program is None:
            return "none", "no pattern is shared; the XPath evaluator takes the whole query"
        valued = any(path.slot is not None for path in actual.paths)
        how = "one look-up per element" + (", and one for the value of a node at the end of a path" if valued else "")
        return "paths", f"by the path engine: {how}"
    if isinstance(actual.program, Bool):
        return "none", "it always matches, whatever the message"
    if actual.exact == 0 and all(path.slot is None for path in actual.guards):
        return "paths", "by the path engine: for a message that is reached and has the guards nothing is left to check"
    star = star_of(actual.program)
    if actual.exact is not None:
        name, how = _by_star(star) if star is not None else ("search", "by search")
        where = "in a message where its branches can but meet in a single node" if actual.exact else ""
        same = "while all of the bucket have the same constants in the guards"
        when = " and ".join(filter(None, [where, same if any(p.slot is not None for p in actual.guards) else ""]))
        return name, f"by the path engine {when}; else {how}"
    if star is not None:
        return _by_star(star)
    return "search", "by search: for each subscription that the message reaches, for a node that fits"


def _by_star(star: Star) -> tuple[str, str]:
    what = "the document" if star.centre == "/" else star.centre
    return "star", (
        f"as a star: the values below {what} are taken once, then all subscriptions of the bucket are checked column by"
        " column (one alone: by search)"
    )


def _cost(actual: Plan, access: tuple[Access, ...], guards: tuple[Access, ...]) -> tuple[str, str]:
    anyway = actual.paths == (ANYWAY,)
    reached = " or ".join(map(str, access))
    if actual.residual is not None:
        if anyway and actual.program is None:
            return "evaluator", "the XPath evaluator checks every message"
        return "evaluator behind a pattern", "the XPath evaluator checks only messages that pass the shared pattern"
    if actual.program is None:
        if any(path.slot is not None for path in actual.paths):
            return "value", "one look-up per element and per value, whatever the number of subscriptions"
        return "path", "one look-up per element, whatever the number of subscriptions"
    if anyway and not guards:
        return "pattern on every message", "nothing in a message rules it out beforehand"
    if actual.exact == 0 and all(path.slot is None for path in actual.guards):
        return "path", "one look-up per element, and one per guard where a message gets that far"
    if guards:
        reached = " and ".join([f"({reached})" if len(access) > 1 else reached, *map(str, guards)])
    return "pattern", f"evaluated only for messages with {reached}"


def _branch_text(point: BranchPoint) -> str:
    branches = f"{point.branches} branch{'' if point.branches == 1 else 'es'}"
    return f"{point.path}: {branches}{', positions' if point.positions else ''}"


def _sharing_text(sharing: Sharing) -> Iterator[str]:
    yield f"of {sharing.subscriptions:,} subscription{'' if sharing.subscriptions == 1 else 's'}"
    for count, words in (
        (sharing.path, "with a path in common"),
        (sharing.shape, "of the same shape"),
        (sharing.equal, "equal"),
    ):
        if count is not None:
            yield f"{count:,} {words}"


# -- who shares


class _Scratch:
    """An engine to ask what it would do, without doing it to one in use."""

    def __init__(self, namespaces: Mapping[str, str] | None = None) -> None:
        self.engine = Engine(namespaces=namespaces)
        self.register = self.engine._register

    def encoded(self, s: Subscription, template: Template, literals: Sequence[str]) -> Template:
        """Do as Engine.add_many does: what the kernel's patterns cannot express, the evaluator decides."""
        try:
            self.register.queue(0, template, literals)
        except NotEncodable:
            return Template(undecided(s, self.engine.namespaces))
        finally:
            self.register.clear()
        return template

    def keys(self, s: Subscription) -> tuple[set[Hashable], Hashable, Hashable]:
        """What two subscriptions have in common that share a path, a shape, or all."""
        template, literals = self.engine._compiler.split(s)
        template = self.encoded(s, template, literals)
        constants = template.constants(literals)
        actual = template.plan
        codes = self.register.codes
        paths: set[Hashable] = {tuple(one) for path in actual.paths for one in codes.path(path, constants)}
        shape: Hashable
        if actual.program is None:
            shape = tuple((path.steps, path.slot and type(path.slot.value)) for path in actual.paths)
        else:
            shape = self.register.shape(template)
        query = self.register.query(template, literals)
        residual = query and (tuple(query.words), tuple(query.strings))
        return paths, shape, (shape, tuple(constants), residual)


def _census(s: Subscription, subscriptions: Iterable[Subscription], scratch: _Scratch) -> Sharing:
    paths, shape, all = scratch.keys(s)
    counts = Counter[str](subscriptions=0)
    for other in subscriptions:
        its_paths, its_shape, its_all = scratch.keys(other)
        counts["subscriptions"] += 1
        counts["path"] += not paths.isdisjoint(its_paths)
        counts["shape"] += shape == its_shape
        counts["equal"] += all == its_all
    return Sharing(counts["subscriptions"], counts["path"], counts["shape"], counts["equal"])
