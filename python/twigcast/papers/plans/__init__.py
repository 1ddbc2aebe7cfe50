"""Post-processing plans of transforms (broker §3 and §4): how much the path engine shares, and what can be left out.

plan = Planner("FWR", "query+schema", schema).plan(transform)
print(explain(plan))
groups = execute(plan, Message(xml))

The kernel runs them too (``encode``); the executor in Python is there to check them.
"""

from __future__ import annotations

from twigcast.papers.plans.build import SHARING
from twigcast.papers.plans.execute import Streams, execute
from twigcast.papers.plans.explain import explain
from twigcast.papers.plans.planner import LEVELS, Plan, Planner, profile

__all__ = ["LEVELS", "SHARING", "Plan", "Planner", "Streams", "execute", "explain", "profile"]
