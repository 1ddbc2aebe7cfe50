"""The plan that the broker paper would make of a transform, in words and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from twigcast.errors import OptionError
from twigcast.papers.plans import Plan, Planner
from twigcast.papers.plans import explain as plan_tree
from twigcast.papers.plans.explain import drawn
from twigcast.papers.plans.picture import dot, svg
from twigcast.schema import Schema
from twigcast.transform.explanation import TransformExplanation

OPTIMIZE = {"none": "none", "query": "query", "schema": "query+schema"}
"""Levels as options name them -> as the planner does."""


class PlanExplanation(TransformExplanation):
    """A transform with its plan: ``dot()`` and ``svg()`` are pictures of it."""

    def __init__(
        self,
        query: str,
        *,
        namespaces: Mapping[str, str] | None = None,
        default_namespace: str | None = None,
        sharing: str = "FWR",
        optimize: str | None = None,
        schema: Schema | None = None,
    ) -> None:
        """Plan a transform. Without ``optimize``, the plan relies on the query and on the schema, if there is one."""
        if optimize is not None and optimize not in OPTIMIZE:
            hint = f"one of: {', '.join(OPTIMIZE)}"
            raise OptionError("bad-optimize", f"optimize cannot be {optimize!r}", hint=hint)
        super().__init__(query, namespaces=namespaces, default_namespace=default_namespace, schema=schema)
        level = "query+schema" if optimize is None else OPTIMIZE[optimize]
        self.plan: Plan = Planner(sharing, level, schema).plan(self.transform)

    def sections(self) -> Iterator[tuple[str, list[str]]]:
        """Yield headings and their lines."""
        yield from super().sections()
        yield "plan", plan_tree(self.plan).splitlines()

    def as_dict(self) -> dict[str, Any]:
        """Return all of it, for programs."""
        plan = {
            "sharing": self.plan.sharing,
            "needs_schema": self.plan.needs_schema,
            "root": drawn(self.plan.root).as_dict(),
        }
        return {**super().as_dict(), "plan": plan}

    def dot(self) -> str:
        """Return the plan as a graph for Graphviz."""
        return dot(self.plan)

    def svg(self) -> str:
        """Return the plan as an SVG picture."""
        return svg(self.plan)
