"""Forking while other threads publish: the child works, or says why it cannot; it never hangs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from twigcast import Broker, Engine, TwigcastError
from twigcast.store import Store

XML = b"<a>" + b"<b><c>1</c></b>" * 2_000 + b"</a>"


def _broker() -> Broker:
    broker = Broker()
    broker.subscribe("//b[c = 1]", id="filter", result="fragments")
    broker.subscribe("count(//b) > 5", id="residual")
    broker.subscribe("<r>{ for $b in //b return $b/c }</r>", id="transform")
    broker.subscribe("//a->x[./b->y] FOLLOWED BY{y = z, 1 DAYS} //d->w[./e->z]", id="join")
    return broker


def _in_child(work: Callable[[], str]) -> str:
    """Return what ``work`` answers in a forked child, or "hangs"."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = work()
        except TwigcastError as error:
            answer = error.code
        except BaseException as error:
            answer = repr(error)
        os.write(write, answer.encode())
        os._exit(0)
    os.close(write)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            with os.fdopen(read, "rb") as pipe:
                return pipe.read().decode()
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hangs"


@contextmanager
def _publishing(broker: Broker) -> Iterator[None]:
    stop = threading.Event()

    def publish() -> None:
        while not stop.is_set():
            broker.publish(XML)

    threads = [threading.Thread(target=publish) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_child_of_a_process_that_publishes_answers_or_refuses() -> None:
    broker = _broker()
    with _publishing(broker):
        answers = {_in_child(lambda: f"{len(broker.publish(XML))} matches") for _ in range(8)}
    assert answers <= {"3 matches", "forked-in-use"}


def test_a_child_of_an_idle_process_uses_what_its_parent_made() -> None:
    broker = _broker()
    broker.publish(XML)
    assert _in_child(lambda: f"{len(broker.publish(XML))} matches") == "3 matches"


def test_a_child_can_always_make_an_engine_of_its_own() -> None:
    broker = _broker()

    def work() -> str:
        engine = Engine()
        engine.add("//b", id="b")
        return str(engine.match(XML))

    with _publishing(broker):
        assert _in_child(work) == "['b']"


def test_a_connection_of_the_parent_is_not_used_by_the_child() -> None:
    broker = Broker(engine="relational")
    broker.subscribe("//b", id="b")
    assert _in_child(lambda: str(broker.publish(XML))) == "forked-in-use"


def test_a_store_opens_connections_of_its_own_in_a_child(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path / 'store.db'}") as store:
        store.subscribe("/a", id="parent")
        assert _in_child(lambda: str(store.subscribe("/b", id="child").id)) == "child"
        assert len(store) == 2
