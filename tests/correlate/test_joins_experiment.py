"""The join experiments: every strategy is measured, and they find the same."""

from __future__ import annotations

from itertools import islice

import pytest

from twigcast.experiments.joins import STRATEGIES, measured
from twigcast.workload.joins import JoinSchema, join_queries, three_level, two_level


@pytest.mark.parametrize(("schema", "most"), [(two_level(), None), (three_level(), 4)])
def test_measured(schema: JoinSchema, most: int | None) -> None:
    correlations = [one.correlation for one in islice(join_queries(schema, most=most), 30)]
    runs = {name: measured(name, schema, correlations) for name in STRATEGIES}
    assert all(run.ms > 0 for run in runs.values())
    assert runs["sequential"].results == runs["default"].results
    assert runs["mmqjp"].templates == runs["mmqjp-materialized"].templates
