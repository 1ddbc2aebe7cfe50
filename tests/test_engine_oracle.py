"""Random structural queries on random documents: the engine agrees with lxml, whatever was added or removed before."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support import engine_for, oracle, random_document, random_query, subscription

WARM = 7  # a trie node is compiled at its sixth visit


def compare(random: Random, *, queries: int, documents: int, rounds: int) -> int:
    """Subscribes and unsubscribes between messages; returns the number of (query, document) pairs compared."""
    pool = [random_query(random) for _ in range(queries)]
    corpus = [random_document(random) for _ in range(documents)]
    expected = [oracle(document, pool) for document in corpus]
    engine = engine_for()
    live: set[int] = set()
    pairs = 0
    for _ in range(rounds):
        leaving = {i for i in sorted(live) if random.random() < 0.3}
        coming = [i for i in range(queries) if i not in live and random.random() < 0.6]
        live = live - leaving | set(coming)
        for i in sorted(leaving):
            engine.remove(i)
        engine.add_many(subscription(i, pool[i]) for i in coming)
        for document, true in zip(corpus, expected, strict=True):
            for _ in range(random.choice((1, 1, WARM))):
                found = engine.match(document)
                assert len(found) == len(set(found))
                wrong = set(found) ^ (true & live)
                assert not wrong, (document, [pool[i] for i in wrong], sorted(live))
            pairs += len(live)
    return pairs


@given(st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_engine_agrees_with_lxml(random: Random) -> None:
    compare(random, queries=20, documents=3, rounds=3)


@pytest.mark.parametrize("seed", range(12))
def test_long_histories_agree_with_lxml(seed: int) -> None:
    assert compare(Random(seed), queries=60, documents=6, rounds=8) > 1000


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_many_long_histories_agree_with_lxml(seed: int) -> None:
    compare(Random(seed), queries=60, documents=8, rounds=8)


@pytest.mark.parametrize("seed", range(3))
def test_thousands_of_paths_agree_with_lxml(seed: int) -> None:
    """Enough of them to leave the first, unsorted stage of the index, then additions on top of that."""
    random = Random(seed)
    pool = [random_query(random, depth=7) for _ in range(1500)]
    corpus = [random_document(random, 60) for _ in range(8)]
    expected = [oracle(document, pool) for document in corpus]
    engine = engine_for()
    engine.add_many(subscription(i, pool[i]) for i in range(1000))
    for bound in (1000, 1200, 1500):
        engine.add_many(subscription(i, pool[i]) for i in range(len(engine), bound))
        for _ in range(WARM):
            for document, true in zip(corpus, expected, strict=True):
                assert set(engine.match(document)) == {i for i in true if i < bound}
    for i in range(0, 1500, 2):
        engine.remove(i)
    for document, true in zip(corpus, expected, strict=True):
        assert set(engine.match(document)) == {i for i in true if i % 2}


@pytest.mark.parametrize("cache_bytes", [1, 20_000, 200_000])
def test_a_cache_too_small_changes_nothing(cache_bytes: int) -> None:
    random = Random(cache_bytes)
    pool = [random_query(random) for _ in range(700)]
    engine = engine_for(cache_bytes=cache_bytes)
    engine.add_many(subscription(i, q) for i, q in enumerate(pool))
    corpus = [random_document(random, 60) for _ in range(12)]
    expected = [oracle(document, pool) for document in corpus]
    for _ in range(WARM):
        for document, true in zip(corpus, expected, strict=True):
            assert set(engine.match(document)) == true
