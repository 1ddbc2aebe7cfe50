"""The bindings of a query in a given combination of messages: the last step of every strategy, and all of it for the
one that evaluates a query at a time."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence

from twigcast.ir.correlation import FOLLOWED, Block, Correlation, Link
from twigcast.lang.values import to_number
from twigcast.papers.plans.evaluate import select
from twigcast.papers.plans.nodes import Message, Node

Row = dict[int, Node]
"""The nodes of some variables of a block, by their numbers."""


def wanted(correlation: Correlation, block: int) -> tuple[int, ...]:
    """The variables of a block that joins compare or SELECT shows."""
    refs = [ref for one in correlation.predicates for ref in (one.left, one.right)] + list(correlation.shown)
    return tuple(sorted({ref.variable for ref in refs if ref.block == block}))


def rows(block: Block, wanted: Sequence[int], message: Message) -> list[Row]:
    """The distinct bindings of ``wanted``."""
    found: dict[tuple[int, ...], Row] = {}
    for bound in _bound(block, message):
        row = {at: bound[at] for at in wanted}
        found[tuple(node.id for node in row.values())] = row
    return list(found.values())


def _bound(block: Block, message: Message) -> Iterator[list[Node]]:
    variables = block.variables

    def bind(at: int, bound: list[Node]) -> Iterator[list[Node]]:
        if at == len(variables):
            yield bound
            return
        variable = variables[at]
        assert variable.path.twig is not None
        context = message.document if variable.parent is None else bound[variable.parent]
        for node in select(variable.path.twig, context):
            yield from bind(at + 1, [*bound, node])

    return bind(0, [])


def in_time(links: Sequence[Link], times: Sequence[int]) -> bool:
    """Whether messages of these times may be joined; a chain has the time of its latest (SEMANTICS 18, 24)."""
    latest = times[0]
    for link, time in zip(links, times[1:], strict=True):
        apart = time - latest
        if link.kind == FOLLOWED and apart <= 0:
            return False
        if link.window is not None and abs(apart) > link.window:
            return False
        latest = max(latest, time)
    return True


def shown_nodes(correlation: Correlation, every: Sequence[list[Row]]) -> list[tuple[int, ...]]:
    """The distinct nodes of the variables shown, in order, given the rows of each block."""
    found: set[tuple[int, ...]] = set()

    def join(at: int, chosen: list[Row]) -> None:
        if at == len(every):
            found.add(tuple(chosen[ref.block][ref.variable].id for ref in correlation.shown))
            return
        predicates = correlation.links[at - 1].predicates if at else ()
        for row in every[at]:
            for one in predicates:
                left = chosen[one.left.block][one.left.variable]
                if not compare(left.value, one.op, row[one.right.variable].value):
                    break
            else:
                join(at + 1, [*chosen, row])

    join(0, [])
    return sorted(found)


_NUMERIC: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compare(left: str, op: str, right: str) -> bool:
    """As strings, or for an order as numbers (SEMANTICS 5, 20)."""
    if op in ("=", "!="):
        return (left == right) == (op == "=")
    return _NUMERIC[op](to_number(left), to_number(right))
