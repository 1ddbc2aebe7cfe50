"""Many subscriptions of one shape: sorted bounds, text indexes and grouped messages agree with checking each alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from twigcast import Engine, Subscription

NUMBERS = ["0", "-0", "1", "1.5", "-1.5", "2", "10", "9" * 400, "-" + "9" * 400]
WORDS = ["", "a", "b", "ab", "ba", "aa", "aba", "bab", "abba", "z"]
Values = dict[str, list[str]]


def number(text: str) -> float:
    try:
        return float(text) if text.strip("-.0123456789") == "" else math.nan
    except ValueError:
        return math.nan


def above(values: Iterable[str], bound: str) -> bool:
    return any(number(v) > number(bound) for v in values)


def below(values: Iterable[str], bound: str) -> bool:
    return any(number(v) < number(bound) for v in values)


# a query with its constants, and what it means for the values of <r>'s children
FAMILIES: list[tuple[str, list[list[str]], Callable[[Values, list[str]], bool]]] = [
    ("/r[p > {}]", [NUMBERS], lambda v, c: above(v["p"], c[0])),
    ("/r[p <= {}]", [NUMBERS], lambda v, c: any(number(x) <= number(c[0]) for x in v["p"])),
    ("/r[p = {}][q != {}]", [NUMBERS, NUMBERS], lambda v, c: _equal(v["p"], c[0]) and _other(v["q"], c[1])),
    ('/r[s = "{}"][p > {}][p < {}]', [WORDS, NUMBERS, NUMBERS],
     lambda v, c: c[0] in v["s"] and above(v["p"], c[1]) and below(v["p"], c[2])),
    ('/r[s = "a"][t != "{}"][q < {}]', [WORDS, NUMBERS],
     lambda v, c: "a" in v["s"] and any(x != c[0] for x in v["t"]) and below(v["q"], c[1])),
    ('/r[s = "b"][t = "{}"][q >= {}]', [WORDS, NUMBERS],
     lambda v, c: "b" in v["s"] and c[0] in v["t"] and any(number(x) >= number(c[1]) for x in v["q"])),
    ('/r[contains(s, "{}")]', [WORDS], lambda v, c: c[0] in first(v["s"])),
    ('/r/t[contains(., "{}")]', [WORDS], lambda v, c: any(c[0] in x for x in v["t"])),
    ('/r/t[starts-with(., "{}")]', [WORDS], lambda v, c: any(x.startswith(c[0]) for x in v["t"])),
    ('/r[contains(t, "{}")][p > {}]', [WORDS, NUMBERS], lambda v, c: c[0] in first(v["t"]) and above(v["p"], c[1])),
    ("/r[count(t) > {}][q > {}]", [["0", "1", "2"], NUMBERS],
     lambda v, c: len(v["t"]) > int(c[0]) and above(v["q"], c[1])),
    ("/r[string-length(t) > {}]", [["0", "1", "2", "3"]], lambda v, c: len(first(v["t"])) > int(c[0])),
]  # fmt: skip


def first(values: list[str]) -> str:
    return values[0] if values else ""


def _equal(values: list[str], constant: str) -> bool:
    return any(number(v) == number(constant) for v in values)


def _other(values: list[str], constant: str) -> bool:
    return any(number(v) != number(constant) for v in values)


def message(random: Random) -> tuple[bytes, Values]:
    pools = {"p": [*NUMBERS, "x", ""], "q": NUMBERS, "s": WORDS, "t": WORDS}
    values = {
        name: [random.choice(pool) for _ in range(random.choice([0, 1, 1, 1, 2, 3]))] for name, pool in pools.items()
    }
    children = [f"<{name}>{value}</{name}>" for name, list in values.items() for value in list]
    return f"<r>{''.join(children)}</r>".encode(), values


@pytest.mark.parametrize("seed", range(6))
def test_many_rows_agree_with_each_alone(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    engine = Engine()
    there: dict[int, Callable[[Values], bool]] = {}
    families = random.sample(FAMILIES, 4)
    for round in range(8):
        added = []
        for id in range(1000 * round, 1000 * round + random.choice([3, 40, 300])):
            text, pools, holds = random.choice(families)
            constants = [random.choice(pool) for pool in pools]
            added.append(Subscription(id, text.format(*constants)))
            there[id] = lambda values, holds=holds, constants=constants: holds(values, constants)  # type: ignore[misc]
        engine.add_many(added)
        for id in random.sample(sorted(there), len(there) // random.choice([2, 5, 50])):
            engine.remove(id)
            del there[id]
        if round == 5:
            engine.save(tmp_path / "set")
            engine = Engine.open(tmp_path / "set")
        messages = [message(random) for _ in range(30)]
        want = [[id for id, holds in there.items() if holds(values)] for _, values in messages]
        texts = [xml for xml, _ in messages]
        assert [sorted(engine.match(xml)) for xml in texts] == [sorted(w) for w in want]
        batch = pa.record_batch({"id": list(range(len(texts))), "xml": pa.array(texts, pa.binary())})
        for order in ("ascending", "any"):
            matched = engine.match_batch(batch, order=order)["matches"].to_pylist()
            ids = engine.ids.to_pylist()
            assert [sorted(ids[number] for number in m) for m in matched] == [sorted(w) for w in want]
        # nothing of a batch is left for the message after it
        assert sorted(engine.match(texts[0])) == sorted(want[0])


def test_a_batch_with_broken_messages_keeps_its_rows_apart() -> None:
    engine = Engine()
    engine.add_many(Subscription(i, f'/r[s = "a"][p > {i}]') for i in range(200))
    engine.add("/r", id=1000)
    texts = [b"<r><s>a</s><p>3</p></r>", b"<r><s>a</s><p>5</p>", b"<r/>", b"<r><s>a</s><p>1</p></r>", b"<x/>"]
    batch = pa.record_batch({"id": list(range(5)), "xml": pa.array(texts, pa.binary())})
    ids = engine.ids.to_pylist()
    matched = [sorted(ids[n] for n in m) for m in engine.match_batch(batch)["matches"].to_pylist()]
    assert matched == [[0, 1, 2, 1000], [], [1000], [0, 1000], []]
