"""How much one transform may cost where it is evaluated node by node: a hostile query must not hold the others up.

libxml2 cannot be interrupted, so that what it may take is bounded beforehand (``lang/cost.py``); what runs in Python
counts the nodes that it visits as it goes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from twigcast.lang.cost import Size, cost

Spend: TypeAlias = Callable[[int], None]
"""Told before that many nodes are visited; raises TooCostly."""

# Nodes that libxml2 may visit for a step that a query may take (``Limits.max_query_steps``): its bound is a rough one.
PER_STEP = 25
# A node that Python visits takes about as long as so many that libxml2 does.
_PYTHON = 150


class TooCostly(Exception):
    """The budget is spent."""


class Budget:
    """In nodes that libxml2 visits."""

    def __init__(self, most: float) -> None:
        self.left = most

    def spend(self, nodes: int) -> None:
        self.left -= _PYTHON * nodes
        if self.left < 0:
            raise TooCostly

    def bound(self, xpath: str, times: int, size: Size) -> None:
        """What libxml2 may take at worst for an expression without prefixes, evaluated at so many nodes."""
        self.left -= times * cost(xpath, (), size)
        if self.left < 0:
            raise TooCostly


def free(nodes: int) -> None:
    """For those who trust their queries."""
