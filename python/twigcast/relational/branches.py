"""BrPred over Arrow columns, for databases that take such functions: the kernel does the natural joins."""

from __future__ import annotations

import pyarrow as pa

from twigcast import _kernel


def br_pred(branches: pa.Array, points: pa.Array, nodes: pa.Array) -> pa.Array:
    """For each row: do its branches meet in the same nodes at their branch points (relational §3.5.2)?"""
    columns = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in (branches, points, nodes)]
    return pa.array(_kernel.branches_meet(*columns))
