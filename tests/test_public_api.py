"""What `import twigcast` offers: complete, readable, and with errors of its own for what is wrong."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import twigcast
import twigcast.broker
import twigcast.engine
from twigcast import (
    Broker,
    Engine,
    Failure,
    Limits,
    Match,
    MessageError,
    OptionError,
    Selected,
    Subscription,
    SubscriptionError,
)

NOT_TEXT = [None, 1, 1.5, True, b"/a", ["/a"], {"a": 1}, object()]
WRONG = [*NOT_TEXT, "\ud800", "\x00"]
CORRELATION = "//a->x FOLLOWED BY{x=y,5} //b->y"


def test_all_is_complete() -> None:
    for name in twigcast.__all__:
        assert getattr(twigcast, name) is not None
    modules = {name for _, name, _ in pkgutil.iter_modules(twigcast.__path__)}
    own = {"annotations", "import_module", "TYPE_CHECKING", "Any"}
    public = {name for name in dir(twigcast) if not name.startswith("_")} - modules - own
    assert public | {"__version__"} == set(twigcast.__all__) == set(twigcast._MODULES)
    # what a type checker sees is what one gets
    tree = ast.parse(Path(str(twigcast.__file__)).read_text())
    imported = [one for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)]
    seen = {alias.name for one in imported if str(one.module).startswith("twigcast.") for alias in one.names}
    assert seen == public
    with pytest.raises(AttributeError, match="no attribute 'Brocker'"):
        twigcast.Brocker  # noqa: B018
    assert twigcast.__all__ == sorted(twigcast.__all__, key=lambda name: (name.startswith("_"), name))


def test_the_package_does_not_import_its_own_facade() -> None:
    """The import contract cannot see what a module gets by way of `from twigcast import …`."""
    root = Path(str(twigcast.__file__)).parent
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "twigcast":
                public = {alias.name for alias in node.names} & set(twigcast.__all__)
                assert not public, f"{path.relative_to(root)}:{node.lineno}: import {public} from their own modules"


def test_what_the_api_takes_and_gives_is_public() -> None:
    """Every type of this package that a public signature names can be imported from `twigcast`."""
    internal = {
        "Alike",
        "CorrelationExplanation",
        "Failed",
        "LinearPath",
        "Order",
        "Processed",
        "Read",
        "Result",
        "Schema",
        "SubscriptionId",
        "Template",
        "TextPath",
        "TransformExplanation",
    }
    known = set(twigcast.__all__) | internal
    for of in (Broker, Engine):
        for name, function in inspect.getmembers(of, inspect.isfunction):
            if name.startswith("_") and name != "__init__":
                continue
            for annotation in function.__annotations__.values():
                for word in re.findall(r"(?<![\w.])[A-Z]\w+", str(annotation)):
                    of_ours = hasattr(twigcast.engine, word) or hasattr(twigcast.broker, word)
                    builtin = word in {
                        "Any",
                        "Callable",
                        "Mapping",
                        "Iterable",
                        "Iterator",
                        "Sequence",
                        "Literal",
                        "Path",
                        "None",
                    }
                    assert not of_ours or builtin or word in known, f"{of.__name__}.{name}: {word}"


def test_the_version_is_that_of_the_package() -> None:
    assert twigcast.__version__ == version("twigcast")


def test_a_broker_is_a_collection_of_subscriptions() -> None:
    broker = Broker()
    assert (len(broker), list(broker), bool(broker)) == (0, [], True)
    broker.subscribe("/a", id="x", namespaces={"p": "urn:p"})
    broker.subscribe("/a", stream="S", result="nodes")
    broker.subscribe(CORRELATION, id="c")
    assert len(broker) == 3 and "x" in broker and 1 in broker and "c" in broker and "y" not in broker
    assert all(one in broker for one in broker)
    for wrong in NOT_TEXT:
        assert wrong == 1 or wrong not in broker
    assert list(broker) == list(broker.subscriptions()) == [
        Subscription("x", "/a", {"p": "urn:p"}), Subscription(1, "/a", result="nodes", stream="S"),
        Subscription("c", CORRELATION),
    ]  # fmt: skip
    broker.unsubscribe("x")
    broker.unsubscribe("c")
    assert [one.id for one in broker] == [1] and len(broker) == 1


def test_a_broker_on_tables_is_one_too() -> None:
    pytest.importorskip("duckdb")
    broker = Broker(engine="relational")
    broker.subscribe("/a", id="x")
    broker.subscribe(CORRELATION, id="c")
    assert len(broker) == 2 and [one.id for one in broker] == ["x", "c"] and "x" in broker
    broker.unsubscribe("x")
    assert [one.id for one in broker] == ["c"] and len(broker) == 1


def test_publish_many() -> None:
    broker = Broker()
    broker.subscribe("/a", id="x")
    results = broker.publish_many(iter([b"<a/>", b"<b/>", b"<a/>", b"<"]))
    assert [next(results), next(results), next(results)] == [[Match(1, "x")], [], [Match(3, "x")]]
    with pytest.raises(MessageError):
        next(results)
    for wrong in (b"<a/>", "<a/>", None, 1):
        with pytest.raises(OptionError, match="an iterable of bytes"):
            broker.publish_many(wrong)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="a message is bytes"):
        list(broker.publish_many(["<a/>"]))  # type: ignore[list-item]


def test_what_a_caller_does_with_the_ids_leaves_the_matches_alone() -> None:
    broker = Broker()
    broker.subscribe("/a", id="x", subscriber="ann")
    found = broker.publish(b"<a/>", id="m")
    found.subscriptions.append("y")
    assert found == [Match("m", "x", "ann")] and repr(found) == repr([Match("m", "x", "ann")])
    assert found.subscriptions == ["x"]


def test_reprs_are_readable() -> None:
    broker = Broker()
    broker.subscribe("/a", id="x")
    assert repr(broker) == "<Broker: 1 subscriptions, engine automaton>"
    assert repr(broker.engine) == "<Engine: 1 subscriptions>"
    assert repr(Match("m", "x")) == "Match(message='m', subscription='x')"
    assert repr(Match("m", 1, nodes=[2])) == "Match(message='m', subscription=1, nodes=[2])"
    long = repr(Match("m", 1, payload=b"x" * 5000, complete=False))
    assert long.endswith("… (5,000 bytes))") and len(long) < 250 and "complete=False" in long
    assert repr(Selected(1)) == "Selected(id=1)"
    assert repr(Selected(1, nodes=list(range(10_000)))).endswith("… (10,000 items))")
    assert repr(Limits()) == "Limits()" and repr(Limits(max_depth=5)) == "Limits(max_depth=5)"
    assert repr(Subscription("x", "/a")) == "Subscription(id='x', query='/a')"
    error = SubscriptionError("bad", "words")
    assert repr(Failure("x", error)) == "Failure(id='x', error=SubscriptionError('words'))"


def engine() -> Engine:
    made = Engine()
    made.add("/a", id=1)
    return made


def broker() -> Broker:
    made = Broker()
    made.subscribe("/a", id="x")
    return made


def calls(wrong: Any) -> dict[str, Callable[[], Any]]:
    """Return calls of the public API with a value that is of the wrong type somewhere."""
    made: dict[str, Callable[[], Any]] = {
        "Broker.subscribe": lambda: broker().subscribe(wrong),
        "Broker.unsubscribe": lambda: broker().unsubscribe(wrong),
        "Broker.publish": lambda: broker().publish(wrong),
        "Broker.publish_many": lambda: list(broker().publish_many([wrong])),
        "Broker.explain": lambda: broker().explain(wrong),
        "Engine.add": lambda: engine().add(wrong),
        "Engine.add_many": lambda: engine().add_many(wrong),
        "Engine.add_many of one": lambda: engine().add_many([wrong]),
        "Engine.check": lambda: engine().check(wrong),
        "Engine.remove": lambda: engine().remove(wrong),
        "in Engine": lambda: wrong in engine(),
        "in Broker": lambda: wrong in broker(),
        "Limits": lambda: Limits(max_bytes=wrong),
        "Subscription.id": lambda: engine().add_many([Subscription(wrong, "/b")]),
        "Subscription.query": lambda: engine().add_many([Subscription("i", wrong)]),
    }
    for name in ("match", "select", "match_batch", "select_batch"):
        made[f"Engine.{name}"] = lambda name=name: getattr(engine(), name)(wrong)
    for name in ("match_batches", "select_batches"):
        made[f"Engine.{name}"] = lambda name=name: list(getattr(engine(), name)(wrong))
    options: dict[str, tuple[Callable[..., Any], str]] = {
        "Broker": (Broker, "namespaces limits lateness max_state_bytes engine database schema on_invalid"),
        "Engine": (Engine, "namespaces limits cache_bytes schema on_invalid"),
        "subscribe": (
            lambda **one: broker().subscribe("/b", **one),
            "id subscriber namespaces default_namespace result deliver_empty stream",
        ),
        "correlation": (
            lambda **one: broker().subscribe(CORRELATION, **one),
            "id subscriber namespaces default_namespace result stream",
        ),
        "publish": (lambda **one: broker().publish(b"<a/>", **one), "id time stream failures"),
        "explain": (lambda **one: broker().explain("/a", **one), "namespaces default_namespace dialect"),
        "add": (
            lambda **one: engine().add("/b", **one),
            "id namespaces default_namespace dialect result deliver_empty",
        ),
    }
    for call, (function, names) in options.items():
        for name in names.split():
            made[f"{call} {name}"] = lambda function=function, name=name: function(**{name: wrong})
    return made


@pytest.mark.parametrize("name", calls(None))
def test_a_wrong_type_is_an_error_of_ours(name: str) -> None:
    """A value may happen to be right for a call; otherwise the error says what would be."""
    for wrong in WRONG:
        try:
            calls(wrong)[name]()
        except twigcast.TwigcastError as error:
            assert error.code and error.text


@pytest.mark.parametrize("wrong", NOT_TEXT)
def test_a_query_is_text(wrong: Any) -> None:
    for call in ("Broker.subscribe", "Broker.explain", "Engine.add", "Subscription.query"):
        with pytest.raises(OptionError, match="a query is a string, not"):
            calls(wrong)[call]()
