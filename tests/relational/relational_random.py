"""Random twigs and expressions on the relational engine, in every plan, beside the automaton and libxml2."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from lxml import etree

from twigcast import Engine, Subscription
from twigcast.errors import QueryError
from twigcast.lang import ast
from twigcast.lang.context import at_document
from twigcast.lang.printer import to_text, to_xpath
from twigcast.papers.relational import PLANS
from twigcast.papers.relational import RelationalEngine as Planned
from twigcast.relational import RelationalEngine
from twigcast.relational.database import Database

sys.path.append(str(Path(__file__).parents[1] / "lang"))

from lang_documents import document
from lang_strategies import expressions

NAMES = ["a", "b", "c", "d"]
# Settings that a small set of subscriptions gets through, so that each of them matters.
OPTIONS: dict[str, dict[str, Any]] = {
    "bucket": {"buckets": 1},
    "share-bucket": {"buckets": 2},
    "unroll": {"unroll": 2},
}
# A database that is empty; None is the default, DuckDB in memory.
NewDatabase = Callable[[], str | Database | None]


def in_memory() -> None:
    return None


@st.composite
def twigs(draw: st.DrawFn, depth: int = 0) -> str:
    """Paths with branches and comparisons: all within the subset."""
    steps = []
    for _ in range(draw(st.integers(1, 3))):
        slash = draw(st.sampled_from(["/", "/", "//"]))
        name = draw(st.sampled_from([*NAMES, "*"]))
        filters = ""
        if depth < 2 and draw(st.integers(0, 2)) == 0:
            terms = draw(st.lists(conditions(depth + 1), min_size=1, max_size=3))
            word = draw(st.sampled_from([" and ", " and ", " or "]))
            filters = f"[{word.join(terms)}]"
        steps.append(f"{slash}{name}{filters}")
    return "".join(steps)


@st.composite
def conditions(draw: st.DrawFn, depth: int) -> str:
    path = draw(twigs(depth))
    path = f".{path}" if path.startswith("//") else path[1:]
    end = draw(st.sampled_from(["", "", "/@a", "/text()"]))
    if draw(st.integers(0, 5)) == 0:
        path, end = ".", ""
    if path != "." and draw(st.booleans()):
        return path + end
    op = draw(st.sampled_from(["=", "=", "!=", "<", "<=", ">", ">="]))
    constant = draw(st.sampled_from(["'1'", "'x'", "'1.0'", "''", "1", "2", "0.5", "0"]))
    return f"{path}{end} {op} {constant}"


twig_lists = st.lists(twigs(), min_size=8, max_size=25)
expression_lists = st.lists(expressions(["child"] * 6 + ["descendant", "attribute"]), min_size=20, max_size=40)
seeds = st.integers(0, 10**9)


def check_twigs(texts: list[str], seed: int, new: NewDatabase = in_memory) -> None:
    texts = list(dict.fromkeys(texts))
    taken = _agree(texts, [etree.XPath(f"boolean({text})") for text in texts], seed, new)
    assert taken > len(texts) // 2


def check_expressions(exprs: list[ast.Expr], seed: int, new: NewDatabase = in_memory) -> None:
    """They agree, or are refused as not within the subset."""
    oracles = []
    for e in exprs:
        xpath, prefixes = to_xpath(at_document(e))
        oracles.append(etree.XPath(f"boolean({xpath})", namespaces=prefixes or None))
    _agree([to_text(e) for e in exprs], oracles, seed, new)


def _agree(texts: list[str], oracles: list[etree.XPath], seed: int, new: NewDatabase, documents: int = 6) -> int:
    """Checks all plans; how many of the queries are within the subset."""
    source = random.Random(seed)
    messages = [document(source) for _ in range(documents)]
    trees = [etree.ElementTree(etree.fromstring(xml)) for xml in messages]
    batch = pa.record_batch({"id": range(documents), "xml": pa.array(messages, pa.binary())})
    judge = RelationalEngine()
    taken = []
    for i, text in enumerate(texts):
        try:
            judge.check(Subscription(i, text))
            taken.append(Subscription(i, text))
        except QueryError as error:
            assert error.code == "not-relational" and error.span is not None
    expected = [[s.id for s in taken if oracles[int(s.id)](tree)] for tree in trees]
    automaton = Engine()
    automaton.add_many(taken)
    assert [automaton.match(xml) for xml in messages] == expected
    judge.add_many(taken)
    assert judge.match_batch(batch).column("matches").to_pylist() == expected
    for plan in PLANS:
        engine = Planned(new(), plan=plan, **OPTIONS.get(plan, {}))
        engine.add_many(taken)
        found = engine.match_batch(batch).column("matches").to_pylist()
        for xml, got, want in zip(messages, found, expected, strict=True):
            assert got == want, (plan, [texts[i] for i in set(got) ^ set(want)], xml.decode())
        if new is in_memory:
            assert engine.match(messages[0]) == expected[0]
        engine.close()
    return len(taken)
