"""Whatever the query and the message: the explanation agrees with the engine, and never fails."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from twigcast import Engine, QueryError
from twigcast.explain.causes import Cause
from twigcast.explain.whynot import Probe, Verdict
from twigcast.lang import ast
from twigcast.lang.printer import to_text
from twigcast.limits import Limits

sys.path.append(str(Path(__file__).parent / "lang"))

from lang_documents import document
from lang_queries import query
from lang_strategies import COMMON_AXES, expressions

NAMESPACES = {"n": "urn:n"}
# a random query may take many steps, and would fail instead of being answered
LIMITS = Limits(max_query_steps=2**63 - 1)


def check(text: str, xml: bytes) -> Verdict:
    engine = Engine(namespaces=NAMESPACES, limits=LIMITS)
    engine.add(text)
    verdict = Probe(text, namespaces=NAMESPACES, limits=LIMITS).test(xml)
    told = f"{text}\n{xml.decode()}\n{verdict}"
    assert verdict.matches == bool(engine.match(xml)), told
    if verdict.matches:
        assert (verdict.why is None) == (verdict.count is not None), told
        if verdict.count is not None:
            selecting = Engine(namespaces=NAMESPACES, limits=LIMITS)
            selecting.add(text, result="nodes")
            (found,) = selecting.select(xml)
            assert verdict.selected and found.nodes is not None, told
            # namespace nodes have no number
            more = verdict.count - len(found.nodes)
            assert more > 0 if any(one.kind == "namespace" for one in verdict.selected) else more == 0, told
    else:
        assert verdict.why is not None and not verdict.selected, told
    if verdict.why is not None:
        check_cause(verdict.why, text, told)
    assert json.loads(json.dumps(verdict.as_dict()))["match"] == verdict.matches
    return verdict


def check_cause(cause: Cause, text: str, told: str) -> None:
    assert not cause.text.startswith("libxml2"), told
    assert 0 <= cause.span.start < cause.span.end <= len(text), told
    for part in cause.parts:
        check_cause(part, text, told)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(expressions(COMMON_AXES), st.integers(0, 10**9))
def test_random_expressions(expr: ast.Expr, seed: int) -> None:
    check(to_text(expr), document(random.Random(seed)))


@pytest.mark.parametrize("seed", range(8))
def test_dense_queries(seed: int) -> None:
    source = random.Random(seed)
    explained = 0
    for _ in range(60):
        text, xml = query(source), document(source)
        try:
            explained += not check(text, xml).matches
        except QueryError as error:
            pytest.fail(f"{text}: {error}")
    assert explained > 10


@pytest.mark.slow
@settings(max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(expressions(), st.integers(0, 10**9))
def test_many_random_expressions(expr: ast.Expr, seed: int) -> None:
    check(to_text(expr), document(random.Random(seed)))
