"""An exception while one subscription is evaluated is its own: in every way to match, the others get their matches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from twigcast import Broker
from twigcast.engine import Engine, Subscription
from twigcast.engine.failures import Failed, Failure, failures_column
from twigcast.errors import QueryError
from twigcast.limits import Limits
from twigcast.rows import FAILURES

LONG = "//*[string-length(concat(" + ",".join(["/"] * 25_000) + ")) = 1]"
RESIDUAL = "//a[following-sibling::a]"
TRANSFORM = "<r>{ for $v in //a[following-sibling::a] return $v }</r>"
FAST_TRANSFORM = "<r>{ for $v in //a return $v }</r>"
PAIR = "S//a->x JOIN{x = y, INF} S//b->y"
MESSAGE = b"<m><a>1</a><a>2</a><b>1</b></m>"


def batch_of(*messages: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(range(len(messages))), "xml": list(messages)})


DEEP = "//a[" + " + ".join(["1"] * 600) + " = 600]"


@pytest.mark.parametrize("result", ["match", "nodes"])
def test_a_query_that_is_nested_too_deeply_is_refused(result: str) -> None:
    engine = Engine()
    with pytest.raises(QueryError) as refused:
        engine.add(DEEP, id="deep", result=result)
    assert refused.value.code == "too-deep" and refused.value.hint
    with pytest.raises(QueryError):
        engine.check(Subscription("deep", DEEP))
    engine.add("//a", id="plain")
    assert engine.match(MESSAGE) == ["plain"] and len(engine) == 1


def test_a_query_of_many_arguments_is_evaluated_like_any_other() -> None:
    engine = Engine()
    engine.add(LONG.replace("= 1]", "= 3 * 25000]"), id="long")
    engine.add(LONG, id="no")
    assert engine.match(MESSAGE) == ["long"]


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


def every_way(engine: Engine) -> list[tuple[list[Any], list[tuple[Any, str]]]]:
    """Matches and failures of ``MESSAGE``, of each of the four ways to ask an engine."""
    found = []
    for ask in (engine.match, engine.select):
        failures: list[Failure] = []
        ids = [getattr(one, "id", one) for one in ask(MESSAGE, failures=failures)]  # type: ignore[operator]
        found.append((ids, [(one.id, one.error.code) for one in failures]))
    names = engine.ids.to_pylist()
    for result in (engine.match_batch(batch_of(MESSAGE, b"<a>")), engine.select_batch(batch_of(MESSAGE, b"<a>"))):
        assert [error and error["code"] for error in result.column("error").to_pylist()] == [None, "unclosed-element"]
        matches, failed = (result.column(name).to_pylist()[0] for name in ("matches", "failures"))
        ids = [names[one["subscription"] if isinstance(one, dict) else one] for one in matches]
        found.append((ids, [(names[one["subscription"]], one["code"]) for one in failed or ()]))
        assert result.column("failures").to_pylist()[1] is None
    return found


@pytest.mark.parametrize("limits", [{"max_query_steps": 60}, {"max_query_bytes": 100}])
@pytest.mark.parametrize("result", ["match", "nodes", "fragments"])
def test_a_query_that_takes_too_much_fails_alone(limits: dict[str, int], result: str) -> None:
    engine = Engine(limits=Limits(**limits))
    engine.add(f"//a[concat({', '.join(['/'] * 50)}) != following::a]", id="failing", result=result)
    engine.add("//a[preceding-sibling::a]", id="other", result="fragments")
    engine.add("//a", id="plain")
    assert engine.may_fail("failing") and engine.may_fail("other") and not engine.may_fail("plain")
    for ids, failures in every_way(engine):
        assert sorted(ids) == ["other", "plain"] and failures == [("failing", "query-too-costly")]


@pytest.mark.parametrize("limits", [{"max_query_steps": 120}, {"max_query_bytes": 400}])
@pytest.mark.parametrize(
    "query",
    [
        "<r>{ for $v in //a[concat(LONG) != following::a] return $v }</r>",
        "<r>{ for $v in //a where concat(LONG) != $v/following::a return $v }</r>",
        "<r>{ for $v in /m return $v/a[concat(LONG) != following::a] }</r>",
    ],
)
def test_a_transform_that_takes_too_much_fails_alone(limits: dict[str, int], query: str) -> None:
    engine = Engine(limits=Limits(**limits))
    failing = query.replace("LONG", ", ".join(["'long'", *["string(/)"] * 100]).replace("string(/)", "string(//*)"))
    if "where" in query:
        failing = failing.replace("//*", "$v/..")
    for id in ("failing", "also"):  # equal ones are made once, and fail both
        engine.add(failing, id=id, deliver_empty=id == "also")
    engine.add(TRANSFORM.replace("following", "preceding"), id="other")
    engine.add(FAST_TRANSFORM, id="fast")
    engine.add("//a", id="plain")
    assert engine.may_fail("failing")
    for ids, failures in every_way(engine):
        assert sorted(ids) == ["fast", "other", "plain"]
        assert sorted(failures) == [("also", "query-too-costly"), ("failing", "query-too-costly")]


def test_a_correlation_that_is_too_costly_fails_alone() -> None:
    broker = Broker(limits=Limits(max_query_steps=3))
    broker.subscribe("SELECT <r>{ $x//d }</r> FROM " + PAIR, id="failing")
    broker.subscribe("SELECT <r>{ $y }</r> FROM " + PAIR, id="other")
    broker.subscribe("//a", id="plain")
    failures: list[Failure] = []
    broker.publish(b"<m><a><c/><c/><c/><c/>1</a></m>", id="m1", time=1, stream="S", failures=failures)
    found = broker.publish(b"<m><b>1</b><a/></m>", id="m2", time=2, stream="S", failures=failures)
    assert sorted(str(one.subscription) for one in found) == ["other", "plain"]
    assert [(one.id, one.error.code) for one in failures] == [("failing", "query-too-costly")]


def test_failures_as_a_column() -> None:
    rows = {1: [Failed(7, "c", "x"), Failed(8, "c", "x")]}
    column = failures_column(3, rows)
    assert column.type == FAILURES and column.null_count == 2
    assert column.to_pylist()[1] == [
        {"subscription": 7, "code": "c", "text": "x"},
        {"subscription": 8, "code": "c", "text": "x"},
    ]
    assert failures_column(2, {}).to_pylist() == [None, None]
