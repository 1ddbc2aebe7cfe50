"""Plans before any optimisation: PathSharing-F, -FW and -FWR (broker §3.1-3.3)."""

from __future__ import annotations

from twigcast.ir.pattern import TRUE, LinearPath, Predicate, Twig
from twigcast.ir.transform import Transform
from twigcast.papers.plans.operators import (
    DupElim,
    Operator,
    OuterJoinSelect,
    ReturnSelect,
    Selection,
    Semijoin,
    Stream,
    Test,
    WhereFilter,
    steps_of,
    tests_of,
)
from twigcast.papers.plans.parts import Parts, extended

SHARING = ("F", "FW", "FWR")


def build(transform: Transform, parts: Parts, sharing: str) -> Operator:
    field = parts.field
    plan: Operator = _selected(Stream(LinearPath(steps_of(parts.binding))), tests_of(parts.binding.nodes))
    # The stream is ordered by its last field, so that this one is always a scan.
    plan = DupElim(plan, (field,), "scan")
    rest: Predicate = parts.where
    if sharing != "F":
        for one in parts.predicates:
            plan = Semijoin(plan, _below(parts, one.twig), field, "hash", one.anti)
        rest = parts.rest
    if rest != TRUE:
        plan = WhereFilter(plan, field, rest)
    paths = tuple(path for path, _ in parts.returns)
    if sharing != "FWR":
        return ReturnSelect(plan, field, paths)
    rights = []
    for _, twig in parts.returns:
        last = field + len(twig.nodes)
        rights.append(DupElim(_below(parts, twig), (field, last), "hash"))
    return OuterJoinSelect(plan, tuple(rights), field, paths, "hash")


def _below(parts: Parts, twig: Twig) -> Operator:
    """The stream of a path below the bound node. The binding path's own filters are not asked again: the join is on
    the bound node, which has passed them."""
    nodes = extended(parts.binding, twig)
    return _selected(Stream(LinearPath(tuple(node.step for node in nodes))), tests_of(twig.nodes, parts.field))


def _selected(stream: Stream, tests: tuple[Test, ...]) -> Operator:
    return Selection(stream, tests) if tests else stream
