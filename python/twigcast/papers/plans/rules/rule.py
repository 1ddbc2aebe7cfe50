"""What every rewrite is: a name, the level from which it applies, and a function over plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twigcast.papers.plans.facts import Facts
from twigcast.papers.plans.operators import Operator
from twigcast.papers.plans.parts import Parts


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Of a plan, once it is built."""

    name: str
    level: str
    apply: Callable[[Operator, Facts], Operator]


@dataclass(frozen=True, slots=True)
class Prepare:
    """Of a transform's parts, before a plan is built; an Operator as its answer is the plan."""

    name: str
    level: str
    apply: Callable[[Parts, Facts], Parts | Operator]
