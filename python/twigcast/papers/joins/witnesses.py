"""Stage 1 (joins §3.1): the bindings of all variables in a message, as the relations R_binW and R_docW.

An edge of a variable tree is one row per pair of nodes; a variable that is alone in its block has an edge to itself.
Nodes that only hold others together have no value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from twigcast.lang.values import to_number
from twigcast.papers.joins.strategy import Arrival
from twigcast.papers.joins.variables import SharedVariable, Variables
from twigcast.papers.plans.evaluate import select
from twigcast.papers.plans.nodes import Message, Node


@dataclass(slots=True)
class Witnesses:
    """``bins`` is R_binW (var1, var2, node1, node2) and ``docs`` R_docW (node, string value, number), each row once; a
    number is None where the value is none."""

    bins: list[tuple[int, int, int, int]] = field(default_factory=list)
    docs: dict[int, tuple[str | None, float | None]] = field(default_factory=dict)


Stage = Callable[[Variables, Arrival, Message], Witnesses]


def witnesses(variables: Variables, arrival: Arrival, message: Message) -> Witnesses:
    """By walking the tree, one shared variable at a time."""
    found = Witnesses()
    for shared in variables.shared.values():
        if shared.parent is not None:
            continue
        if arrival.derived if shared.stream == "" else shared.stream != arrival.stream:
            continue
        for node in select(shared.twig, message.document):
            if shared.alone:
                found.bins.append((shared.number, shared.number, node.id, node.id))
            _below(variables, shared, node, found)
            if shared.alone or shared.children:
                _value(shared, node, found)
    found.bins = list(dict.fromkeys(found.bins))
    return found


def _below(variables: Variables, shared: SharedVariable, node: Node, found: Witnesses) -> None:
    for number in shared.children:
        child = variables.shared[number]
        for below in select(child.twig, node):
            found.bins.append((shared.number, number, node.id, below.id))
            _value(child, below, found)
            _below(variables, child, below, found)


def _value(shared: SharedVariable, node: Node, found: Witnesses) -> None:
    if not shared.compared:
        found.docs.setdefault(node.id, (None, None))
    elif found.docs.get(node.id, (None, None))[0] is None:
        value = node.value
        number = to_number(value)
        found.docs[node.id] = value, None if math.isnan(number) else number
