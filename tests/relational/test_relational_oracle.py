"""The relational engine finds what the automaton and libxml2 find, in every plan; what it does not take it refuses.

Here on DuckDB; on PostgreSQL in test_relational_postgresql.py and on Spark SQL in tests/spark/test_relational_stage.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from relational_random import check_expressions, check_twigs, expression_lists, seeds, twig_lists
from yfilter_sets import SETS, check_set

from twigcast.lang import ast
from twigcast.papers.relational import PLANS, RelationalEngine


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(twig_lists, seeds)
def test_twigs_agree(texts: list[str], seed: int) -> None:
    check_twigs(texts, seed)


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(expression_lists, seeds)
def test_expressions_agree_or_are_refused(exprs: list[ast.Expr], seed: int) -> None:
    check_expressions(exprs, seed)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(twig_lists, seeds)
def test_many_twigs_agree(texts: list[str], seed: int) -> None:
    check_twigs(texts, seed)


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(expression_lists, seeds)
def test_many_expressions_agree_or_are_refused(exprs: list[ast.Expr], seed: int) -> None:
    check_expressions(exprs, seed)


@pytest.mark.parametrize("plan", [p if p == "unroll" else pytest.param(p, marks=pytest.mark.slow) for p in PLANS])
@pytest.mark.parametrize("name", SETS)
def test_yfilters_sets(shared_data: Path, name: str, plan: str) -> None:
    check_set(RelationalEngine(plan=plan), shared_data, name)
