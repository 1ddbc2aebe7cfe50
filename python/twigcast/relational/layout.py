"""What of the tables a statement has to look at, as they are now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twigcast.relational.compile import IN
from twigcast.relational.database import Database
from twigcast.relational.plans import Plan
from twigcast.relational.statements import Layout

# Shapes of unrolled rows that get a join of their own, if they have this many rows.
OWN_JOINS, OWN_JOIN_ROWS = 16, 1_000
Shapes = tuple[tuple[int, str], ...]


def layout_of(database: Database, plan: Plan) -> Layout:
    def some(table: str) -> bool:
        return bool(database.rows(f"SELECT 1 FROM {table} LIMIT 1"))

    shapes: Shapes = ()
    others = False
    if plan.unrolls:
        counts: list[Any] = database.rows(
            "SELECT u.shape, s.signature, count(*) AS n FROM predicate_unroll u JOIN unroll_shape s"
            " ON s.shape = u.shape GROUP BY u.shape, s.signature ORDER BY n DESC, u.shape"
        )
        shapes, others = own_joins(counts)
    return Layout(
        unroll=plan.unroll if plan.unrolls else 0,
        chains=some("query_predicate"),
        branches=some("query_branch_point"),
        alternatives=some("query_alternative"),
        references=some("reference_value"),
        shapes=shapes,
        others=others,
    )


def own_joins(counts: Sequence[tuple[int, str, int]]) -> tuple[Shapes, bool]:
    """Of shapes with their signatures and numbers of rows, most rows first: those with a join of their own, and whether
    there are others."""
    large = [(shape, signature) for shape, signature, n in counts[:OWN_JOINS] if n >= OWN_JOIN_ROWS]
    shapes = tuple(one for one in large if not one[1].endswith(IN))
    return shapes, len(counts) > len(shapes)
