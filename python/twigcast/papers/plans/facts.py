"""What is known of path-tuple streams: asked by the rewrites, answered by the claims that are switched on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from twigcast.ir.pattern import Step
from twigcast.schema import ElementGraph


@dataclass(frozen=True, slots=True)
class Claim:
    """``proves`` is ``distinct`` (no duplicates when projected on the last field), ``distinct-pairs`` (on fields i and
    last) or ``ordered`` (increasing when projected on field i). ``holds`` gets the steps and i."""

    name: str
    level: str
    proves: str
    holds: Callable[[Sequence[Step], int, Facts], bool]


class Facts:
    """The claims in force and the schema's element graph, if any. ``start`` is where a relative path begins."""

    def __init__(self, claims: Sequence[Claim], graph: ElementGraph | None, start: int | None = None) -> None:
        self.claims = claims
        self.graph = graph
        self.start = start

    def distinct(self, steps: Sequence[Step]) -> str | None:
        """The claim that proves it, or None."""
        return self._proof("distinct", steps, len(steps))

    def distinct_pairs(self, steps: Sequence[Step], i: int) -> str | None:
        return self._proof("distinct-pairs", steps, i)

    def ordered(self, steps: Sequence[Step], i: int) -> str | None:
        return self._proof("ordered", steps, i)

    def below(self, steps: Sequence[Step]) -> Facts:
        """The facts for paths that start where ``steps`` end."""
        start = self.graph.walk(steps, self.start)[-1] if self.graph is not None else None
        return Facts(self.claims, self.graph, start)

    def _proof(self, proves: str, steps: Sequence[Step], i: int) -> str | None:
        for claim in self.claims:
            if claim.proves == proves and claim.holds(steps, i, self):
                return claim.name
        return None


def deep(steps: Sequence[Step]) -> list[int]:
    """The places (from 0) of the steps with a ``//`` axis."""
    return [at for at, step in enumerate(steps) if step.axis == "descendant"]


def one_per_name(graph: ElementGraph) -> bool:
    """Whether a name has one declaration, as in a DTD; the paper's claims are worded for that."""
    names = [(d.ns, d.local) for d in graph.declarations]
    return len(set(names)) == len(names) and all(d.ns is not None and d.local is not None for d in graph.declarations)


def nests(graph: ElementGraph, mask: int) -> bool:
    """Whether one of these declarations may lie inside another, or inside itself."""
    return bool(graph.all_below(mask) & mask)
