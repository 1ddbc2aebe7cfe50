"""What explain says of a query is what the engine does with it."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

from twigcast import Broker, Engine, QueryError, Subscription
from twigcast.explain import Access, Sharing, ValuePredicate, WhyResidual, explain
from twigcast.ir.decompose import BranchPoint

sys.path.append(str(Path(__file__).parent / "lang"))

from lang_queries import query

STOCK = '/stock[symbol = "IBM"][price > 50]/volume'


def test_a_path() -> None:
    told = explain("a//b/@c")
    assert (told.kind, told.pattern, told.shape, told.constants) == ("paths", "/a//b/@c", "/a//b/@c", ())
    assert told.linear_paths == told.selects == ("/a//b/@c",)
    assert told.access == (Access("/a//b/@c"),)
    assert (told.evaluation, told.cost, told.sharing) == ("paths", "path", None)


def test_an_equality_at_the_end_of_a_path_is_one_more_step() -> None:
    told = explain("//a[@x = '1' or b = 2]")
    assert (told.kind, told.cost, told.constants) == ("paths", "value", ("1", 2.0))
    assert told.values == (
        ValuePredicate("//a/@x", "@x = '1'", "path step"),
        ValuePredicate("//a/b", "b = 2.0", "path step"),
    )
    assert told.access == (Access("//a/@x", "1"), Access("//a/b", 2.0))
    assert told.access_why == "having any of them is enough"


def test_a_pattern() -> None:
    told = explain(STOCK)
    assert told.kind == "pattern"
    assert told.pattern == "stock[price > 50.0 and symbol = 'IBM' and volume]"
    assert told.shape == "stock[price > ?n and symbol = ? and volume]"
    assert told.constants == (50.0, "IBM")
    assert told.selects == ("stock[price > 50.0 and symbol = 'IBM']/volume",)
    assert told.linear_paths == ("/stock/price", "/stock/symbol", "/stock/volume", "/stock")
    assert told.branch_points == (BranchPoint("/stock", 3, False),)
    assert told.values == (
        ValuePredicate("/stock/price", "price > 50.0", "column"),
        ValuePredicate("/stock/symbol", "symbol = 'IBM'", "access"),
    )
    assert told.access == (Access("/stock/symbol", "IBM"),)
    assert told.access_why.startswith("an equality: few messages have the very value")
    assert told.evaluation == "star" and "below /stock" in told.evaluation_why
    assert told.cost == "pattern"


@pytest.mark.parametrize(
    ("text", "evaluation", "access"),
    [
        ("//a[b][2]", "search", "//a/b"),
        ("/a[contains(b, 'x')][c]", "search", "/a/c"),
        ("/a[b][c]", "paths", "/a/b"),
        ("//a[b > 1][c < 2]", "star", "//a/b"),
        ("/a[b > 1] and /a[c < 2]", "star", "/a/b"),
        ("not(/a)", "search", "/*"),
        ("/a[b or not(c)]", "search", "/a"),
        ("true()", "none", "/*"),
    ],
)
def test_how_patterns_are_evaluated(text: str, evaluation: str, access: str) -> None:
    told = explain(text)
    assert (told.kind, told.evaluation, told.access) == ("pattern", evaluation, (Access(access),))


def test_a_residual_query_says_what_is_shared_and_why_not_all() -> None:
    told = explain("//a/following::b[@x = '1']")
    assert (told.kind, told.cost) == ("residual", "evaluator behind a pattern")
    assert told.shared == ".//a and .//b/@x = '1'"
    assert told.access == (Access("//b/@x", "1"),)
    assert told.residual == (WhyResidual("the axis following is not part of tree patterns", 4, 26),)
    assert [line for line in str(told).splitlines() if "^" in line or line.endswith("'1']")][1:] == [
        "              //a/following::b[@x = '1']",
        "                  ^^^^^^^^^^^^^^^^^^^^^^",
    ]


@pytest.mark.parametrize("text", ["//processing-instruction('x')", "string-length(name(/*)) > 3", "name(/*) != 'a'"])
def test_a_residual_query_with_nothing_to_share(text: str) -> None:
    told = explain(text)
    assert (told.kind, told.cost, told.access) == ("residual", "evaluator", (Access("/*"),))


def test_what_is_shared_with_how_many() -> None:
    others = [
        Subscription("same", '/stock[price > 50 and symbol = "IBM"]/volume'),
        Subscription("shape", '/stock[symbol = "IBM"][price > 70]/volume'),
        Subscription("other symbol", '/stock[symbol = "SAP"][price > 50]/volume'),
        Subscription("other", "/stock/price"),
    ]
    assert explain(STOCK, subscriptions=others).sharing == Sharing(4, path=2, shape=3, equal=1)
    assert explain("stock/price", subscriptions=others).sharing == Sharing(4, path=1, shape=1, equal=1)
    assert explain("//a/following::b", subscriptions=[Subscription(1, "//a[following::b]")]).sharing == Sharing(
        1, 1, 1, 0
    )
    assert "0 equal" in str(explain("/x", subscriptions=others))


def test_the_broker_explains_within_its_namespaces() -> None:
    broker = Broker(namespaces={"p": "urn:p"})
    broker.subscribe("/p:a//b")
    broker.subscribe("/p:a/descendant::b")
    told = broker.explain("p:a//b")
    assert (told.pattern, told.sharing) == ("/{urn:p}a//b", Sharing(2, path=2))
    assert "of 2 subscriptions" in str(told)
    assert broker.explain("/c").sharing == Sharing(2, path=0)
    assert broker.explain("/c[d = 1][e]").sharing == Sharing(2, path=None)
    with pytest.raises(QueryError):
        broker.explain("/a[")
    assert broker.publish(b"<a xmlns='urn:p'><b xmlns=''/></a>") != []


def test_the_dialect_counts() -> None:
    assert explain("/a[//b]").pattern == ".//b and a"
    assert explain("/a[//b]", dialect="tian").pattern == "a//b"


def test_random_queries_agree_with_the_engine() -> None:
    source = random.Random(5)
    kinds = set()
    for _ in range(300):
        text = query(source)
        told = explain(text, namespaces={"n": "urn:n"}, subscriptions=[Subscription(1, text)])
        engine = Engine(namespaces={"n": "urn:n"})
        engine.add(text)
        assert (told.kind == "residual") == engine.kernel.has_query(0), text
        assert told.sharing == Sharing(1, 1, 1, 1), text
        assert str(told) and json.dumps(told.as_dict())
        kinds.add(told.kind)
    assert kinds == {"paths", "pattern", "residual"}
