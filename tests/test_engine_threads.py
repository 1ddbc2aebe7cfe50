"""Threads that match, subscribe and unsubscribe at once: no deadlock, and every answer is true of some moment."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from twigcast import Broker, Engine, Subscription


@pytest.fixture(autouse=True)
def switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(*jobs: Callable[[], None]) -> None:
    with ThreadPoolExecutor(len(jobs)) as pool:
        for done in [pool.submit(job) for job in jobs]:
            done.result(timeout=120)


def test_matching_while_others_subscribe_and_unsubscribe() -> None:
    engine = Engine()
    engine.add_many(Subscription(f"stay{i}", f"//a{i % 5}") for i in range(100))
    stay = {d: {f"stay{i}" for i in range(100) if i % 5 == d} for d in range(5)}
    documents = [f"<r><a{d}/></r>".encode() for d in range(5)]
    batch = pa.record_batch({"id": list(range(50)), "xml": documents * 10})
    stop = threading.Event()

    def come_and_go(name: str) -> Callable[[], None]:
        def run() -> None:
            for i in range(400):
                # the number of a subscription on one path goes to another on another path
                engine.add(f"//a{i % 5}", id=f"{name}/{i}/{i % 5}")
                if i >= 3:
                    engine.remove(f"{name}/{i - 3}/{(i - 3) % 5}")
            if name == "x":
                stop.set()

        return run

    def match() -> None:
        while not stop.is_set():
            for d, xml in enumerate(documents):
                found = engine.match(xml)
                assert len(found) == len(set(found))
                assert stay[d] <= set(found)
                assert {str(id).rpartition("/")[2] for id in set(found) - stay[d]} <= {str(d)}

    def match_batches() -> None:
        while not stop.is_set():
            result = engine.match_batch(batch)
            assert result.column("error").null_count == 50
            for d, row in enumerate(result.column("matches").to_pylist()):
                assert len(row) >= len(stay[d % 5])

    together(come_and_go("x"), come_and_go("y"), match, match, match_batches)
    assert len(engine) == 106


def test_ids_are_counted_without_clashes() -> None:
    engine = Engine()
    given: list[object] = []

    def subscribe() -> None:
        given.extend([engine.add("/a") for _ in range(200)])

    together(*[subscribe] * 4)
    assert len(set(given)) == 800 == len(engine)
    assert set(engine.match(b"<a/>")) == set(given)


def test_a_match_always_has_its_subscriber() -> None:
    broker = Broker()
    stop = threading.Event()

    def subscribe() -> None:
        for i in range(600):
            broker.subscribe("//a", id=i, subscriber=f"of {i}")
            if i % 2:
                broker.unsubscribe(i)
        stop.set()

    def publish() -> None:
        while not stop.is_set():
            for m in broker.publish(b"<a/>"):
                assert m.subscriber in (f"of {m.subscription}", None if int(m.subscription) % 2 else "")

    together(subscribe, publish, publish)


def test_a_long_batch_holds_nobody_up() -> None:
    """The interpreter runs while the kernel matches, even for those who wait to subscribe."""
    engine = Engine()
    engine.add_many(Subscription(i, f"//a{i}//b") for i in range(1000))
    xml = b"<r>" + b"<a1><b/></a1>" * 20_000 + b"</r>"
    batch = pa.record_batch({"id": list(range(200)), "xml": [xml] * 200})
    engine.match(xml)
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    def work() -> None:
        try:
            engine.match_batch(batch)
        finally:
            done.set()

    def subscribe() -> None:
        time.sleep(0.01)
        engine.add("/new", id="new")
        engine.remove("new")

    began = time.perf_counter()
    together(work, subscribe, tick)
    took = time.perf_counter() - began
    assert ticks > min(20, took / 0.1)
