"""What a correlation means, straight from SEMANTICS 18-25: nested loops over messages and over nodes, with libxml2.

No sharing, no state but the messages themselves: the oracle that strategies are held against.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Any

from lxml import etree

from twigcast.correlate.making import derived_id
from twigcast.ir.correlation import FOLLOWED, Block, Correlation, Link
from twigcast.lang.printer import to_xpath
from twigcast.lang.values import to_number
from twigcast.lang.xpath import parse
from twigcast.papers.joins.output import render
from twigcast.papers.plans.nodes import Message, Node

_NUMERIC: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_Binding = tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """``nodes`` are those that the variables of ``Correlation.shown`` are bound to."""

    subscription: str | int
    messages: tuple[str | int, ...]
    nodes: tuple[int, ...]
    payload: bytes = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    id: str | int
    stream: str
    time: int
    derived: bool
    tree: Message


def evaluate(
    correlations: Mapping[str | int, Correlation],
    messages: Iterable[tuple[str | int, str, int, bytes]],
    *,
    lateness: int | None = None,
) -> list[Result]:
    """All results, as they come. ``messages`` are (id, stream, time, XML) in the order of their arrival; one that is
    older than the newest so far by more than ``lateness`` is dropped."""
    found: list[Result] = []
    seen: list[_Seen] = []
    newest: int | None = None
    for id, stream, time, xml in messages:
        if newest is not None and lateness is not None and time < newest - lateness:
            continue
        newest = time if newest is None else max(newest, time)
        arrivals = [_Seen(id, stream, time, False, Message(xml))]
        while arrivals:
            arrived = arrivals.pop(0)
            seen.append(arrived)
            for subscription, correlation in correlations.items():
                derived: dict[tuple[str | int, ...], int] = {}
                for combination, nodes, payload in _completed(correlation, seen):
                    ids = tuple(one.id for one in combination)
                    found.append(Result(subscription, ids, nodes, payload))
                    if correlation.publish is not None:
                        derived[ids] = derived.get(ids, 0) + 1
                        latest = max(one.time for one in combination)
                        name = derived_id(correlation.publish, ids, derived[ids])
                        arrivals.append(_Seen(name, correlation.publish, latest, True, Message(payload)))
    return found


def _completed(
    correlation: Correlation, seen: list[_Seen]
) -> Iterator[tuple[tuple[_Seen, ...], tuple[int, ...], bytes]]:
    """The results that the last message seen takes part in."""
    arrived = seen[-1]
    for combination in product(seen, repeat=len(correlation.blocks)):
        if arrived not in combination or len(set(map(id, combination))) < len(combination):
            continue
        if not all(_reads(block, one) for block, one in zip(correlation.blocks, combination, strict=True)):
            continue
        if not _in_time(correlation.links, [one.time for one in combination]):
            continue
        every = [list(bindings(block, one.tree)) for block, one in zip(correlation.blocks, combination, strict=True)]
        shown: dict[tuple[int, ...], None] = {}
        for bound in product(*every):
            if all(_holds(link, bound) for link in correlation.links):
                shown[tuple(bound[ref.block][ref.variable].id for ref in correlation.shown)] = None
        for nodes in sorted(shown):
            parts = [(one.tree, dict[int, int]()) for one in combination]
            for ref, node in zip(correlation.shown, nodes, strict=True):
                parts[ref.block][1][ref.variable] = node
            yield combination, nodes, render(correlation, parts)


def _reads(block: Block, message: _Seen) -> bool:
    return not message.derived if block.stream == "" else message.stream == block.stream


def _in_time(links: Sequence[Link], times: Sequence[int]) -> bool:
    for at, link in enumerate(links):
        apart = times[at + 1] - max(times[: at + 1])
        if link.kind == FOLLOWED and apart <= 0:
            return False
        if link.window is not None and abs(apart) > link.window:
            return False
    return True


def _holds(link: Link, bound: Sequence[_Binding]) -> bool:
    for one in link.predicates:
        left = bound[one.left.block][one.left.variable].value
        right = bound[one.right.block][one.right.variable].value
        if not compare(left, one.op, right):
            return False
    return True


def compare(left: str, op: str, right: str) -> bool:
    """As strings, or for an order as numbers (SEMANTICS 5, 20)."""
    if op in ("=", "!="):
        return (left == right) == (op == "=")
    return _NUMERIC[op](to_number(left), to_number(right))


def bindings(block: Block, message: Message) -> Iterator[_Binding]:
    """Every way to bind the block's variables to nodes of the message."""

    def bind(at: int, bound: list[Node]) -> Iterator[_Binding]:
        if at == len(block.variables):
            yield tuple(bound)
            return
        variable = block.variables[at]
        context = message.document if variable.parent is None else bound[variable.parent]
        for node in _nodes(variable.path.text, message, context):
            bound.append(node)
            yield from bind(at + 1, bound)
            bound.pop()

    return bind(0, [])


def _nodes(text: str, message: Message, context: Node) -> list[Node]:
    if context.kind == "document" and text == ".":
        return [context]
    found: Any = _compiled(text)(message.tree if context.kind == "document" else context.element)
    return sorted((message.node(one) for one in found), key=lambda node: node.id)


@lru_cache(4096)
def _compiled(text: str) -> etree.XPath:
    xpath, prefixes = to_xpath(parse(text))
    return etree.XPath(xpath, namespaces=prefixes or None, smart_strings=True)
