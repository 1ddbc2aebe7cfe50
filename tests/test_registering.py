"""Subscriptions of shapes that are known go to the kernel as texts, in bulk: they mean what they would alone."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from random import Random

import pytest

from twigcast import Engine, Subscription
from twigcast.engine import jobs
from twigcast.errors import OptionError, QueryError
from twigcast.ir.pattern import And, Compare, Const, Exists, Node, Step, StringValue, Twig
from twigcast.lang.literals import LITERAL, taken_apart

FORMS = (
    "/a[b = {s}]",  # a path alone
    "/a[b = {n}]/c",
    "/a[b = {s} or @x = {n}]",
    "/a[b = {s} and c > {n} and d < -{n}]",
    "//b[. = {n}][@x != {s}]",
    "/a/*[1][. = {s}]",  # a literal that belongs to the shape
    "//a[contains(b, {s}) and count(c) > 1]",
    "/a[b = -{n}]",
    "/a[b = {s}][following::c = {n}]",  # for libxml2
)
MESSAGES = [
    f'<a x="{x}"><b x="{y}">{x}</b><c>{y}</c><c/><d>{z}</d><c>{x}</c></a>'.encode()
    for x, y, z in (
        ("1", "2", "-3"),
        ("x", "1", "0"),
        ("-2", "5.5", "-9"),
        ("it's", "0", "1"),
        ("5.", "7", "y"),
        ("", "", ""),
    )
]


def texts(count: int) -> list[str]:
    random = Random("registering")
    strings = ("'1'", '"1"', '"x"', "'x'", '"it\'s"', "''", '""', "'5.'")
    numbers = ("1", "2", "0", "5.5", ".5", "5.", "2.0")
    made = []
    for _ in range(count):
        form = random.choice(FORMS)
        while "{" in form:
            form = form.replace("{s}", random.choice(strings), 1).replace("{n}", random.choice(numbers), 1)
        made.append(form)
    return made


def test_all_at_once_is_as_each_alone() -> None:
    queries = texts(600)
    engine = Engine()
    engine.add_many([Subscription(i, query) for i, query in enumerate(queries[:300])])
    engine.add_many([Subscription(300 + i, query) for i, query in enumerate(queries[300:])])
    alone: dict[str, list[bool]] = {}
    for query in set(queries):
        one = Engine()
        one.add(query, id=1)
        alone[query] = [bool(one.match(message)) for message in MESSAGES]
    assert sum(map(sum, alone.values())) > 50
    for m, message in enumerate(MESSAGES):
        assert sorted(engine.match(message)) == [i for i, query in enumerate(queries) if alone[query][m]]


@pytest.mark.parametrize("value", ["\x01", "\ud800", "\uffff", "x" * 70_000])
def test_a_known_shape_takes_no_more_than_a_new_one(value: str) -> None:
    engine = Engine()
    engine.add_many([Subscription(i, f"/a[b = '{i}' and c = 'x']") for i in range(5)])
    with pytest.raises(QueryError):
        engine.add(f"/a[b = '{value}' and c = 'x']")
    engine.add("/a[b = 'tab\tand\nline' and c = 'x']", id="white space")
    assert engine.match(b"<a><b>tab\tand\nline</b><c>x</c></a>") == ["white space"]


def test_results_of_known_shapes() -> None:
    engine = Engine()
    engine.add_many([Subscription(i, f"/a/b[. = {i}]", result="fragments") for i in range(20)])
    engine.add_many([Subscription(20 + i, f"/a/b[. = {i}]") for i in range(20)])
    assert sorted(engine.match(b"<a><b>7</b></a>")) == [7, 27]
    assert [s.fragments for s in engine.select(b"<a><b>7</b></a>")] == [[b"<b>7</b>"], None]


def test_removed_numbers_are_used_again_by_paths_and_rows() -> None:
    engine = Engine()
    queries = texts(200)
    engine.add_many([Subscription(f"old {i}", query) for i, query in enumerate(queries)])
    for i in range(0, 200, 3):
        engine.remove(f"old {i}")
    engine.add_many([Subscription(f"new {i}", queries[i]) for i in range(0, 200, 3)])
    for message in MESSAGES:
        found = set(engine.match(message))
        assert all((f"new {i}" in found) == any(f"old {j}" in found for j in same) for i, same in twins(queries))


def twins(queries: list[str]) -> list[tuple[int, list[int]]]:
    """The subscriptions that came again, with others of the same text that stayed."""
    kept = {i: [j for j, q in enumerate(queries) if j % 3 and q == queries[i]] for i in range(0, 200, 3)}
    return [(i, same) for i, same in kept.items() if same]


def test_the_rest_of_a_text_and_its_literals_are_the_text() -> None:
    random = Random("apart")
    for _ in range(20_000):
        text = "".join(random.choice("""a-.5 '"="[]/<1 """) for _ in range(random.randrange(14)))
        rest, literals = taken_apart(text)
        parts = LITERAL.split(text)
        assert (list(rest[::2]), literals) == (parts[::2], parts[1::2])
        assert list(rest[1::2]) == [x[0] if x[0] in "\"'" else None for x in literals]


def test_what_a_pattern_remembers_stays_behind() -> None:
    """Hashes of strings differ between processes."""
    twig = Twig((Node(Step("child", "element", "", "a")),))
    pattern = And((Exists(twig), Compare(StringValue(twig), "=", Const("x"))))
    state = pickle.dumps(pattern)
    hash(pattern), str(pattern), twig.steps, twig.bare
    assert pickle.dumps(pattern) == state
    assert pickle.loads(state) == pattern and hash(pickle.loads(state)) == hash(pattern)


def test_more_processes_give_the_same_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jobs, "LEAST_SHARE", 100)
    queries = [*texts(150), *(f"/a/b{i % 40}/c" for i in range(60)), "/p:a[p:b = 'x']", "//b/preceding::c = 1"] * 2
    subscriptions = [Subscription(i, query) for i, query in enumerate(queries)]
    subscriptions.append(Subscription("nodes", "/a[b = 'x']", result="nodes"))
    subscriptions.append(Subscription("made", "<t>{ for $a in //a return $a }</t>"))
    engines = [Engine(namespaces={"p": "urn:p"}) for _ in range(3)]
    for number, engine in enumerate(engines, 1):
        engine.add_many(subscriptions, jobs=number)
    one, *others = engines
    for other in others:
        other.save(tmp_path / "set")
        for again in (other, Engine.open(tmp_path / "set")):
            assert sorted(again.kernel.shapes()) == sorted(one.kernel.shapes())
            for message in MESSAGES:
                assert again.match(message) == one.match(message)
                assert again.select(message) == one.select(message)


def test_more_processes_raise_the_first_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "LEAST_SHARE", 2)
    subscriptions = [Subscription(i, query) for i, query in enumerate(["/a[b = 1]", "/a", "//b[", "/q:a", "/a["])]
    for number in (1, 2):
        engine = Engine()
        with pytest.raises(QueryError, match="//b"):
            engine.add_many(subscriptions, jobs=number)
        assert len(engine) == 0
    with pytest.raises(OptionError, match="number of processes"):
        engine.add_many([], jobs=0)


def test_the_share_of_a_process_that_dies_is_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "LEAST_SHARE", 2)
    monkeypatch.setattr(jobs, "COMMAND", (sys.executable, "-c", "pass"))
    engine = Engine()
    engine.add_many([Subscription(i, f"/a[b = {i}]") for i in range(6)], jobs=2)
    assert engine.match(b"<a><b>4</b></a>") == [4]
