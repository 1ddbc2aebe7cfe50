"""Values that a message is the first to have: right, and not remembered one by one."""

from __future__ import annotations

import random

from twigcast import Engine, papers

VALUES = 400


def queries(engine: Engine) -> None:
    for n in range(VALUES):
        engine.add(f'/o[c = "v{n}"]', id=f"c{n}")
        engine.add(f'//i[@k = "v{n}"]/t', id=f"k{n}")
        if n % 7 == 0:
            engine.add(f"/o[c = {n}]", id=f"n{n}")
    for n in range(20):  # one value that many ask for
        engine.add(f'/o[c = "v3"][i/@k = "v{n}"]', id=f"both{n}")
        engine.add('//i[@k = "v5"]', id=f"same{n}")


def message(dice: random.Random) -> bytes:
    items = "".join(f'<i k="v{dice.randrange(VALUES + 50)}"><t/></i>' for _ in range(dice.randrange(6)))
    value = dice.choice([f"v{dice.randrange(VALUES + 50)}", "v3", str(dice.randrange(VALUES)), "unknown"])
    return f"<o><c>{value}</c>{items}</o>".encode()


def test_values_seen_first_match_as_the_automaton_says_and_changes_of_the_set_count() -> None:
    dice = random.Random(7)
    engines = [Engine(), papers.Engine(mode="nfa")]
    for engine in engines:
        queries(engine)
    for round in range(12):
        for _ in range(40):
            xml = message(dice)
            found, expected = (sorted(engine.match(xml)) for engine in engines)
            assert found == expected, xml
        gone, fresh = f"c{round * 5}", f"new{round}"
        for engine in engines:
            engine.remove(gone)
            engine.add(f'/o[c = "v{round * 5}"]', id=fresh)
            engine.add(f'//i[@k = "v{round}"][t]', id=f"{fresh}t")


def test_the_cache_does_not_grow_with_the_values() -> None:
    engine = Engine()
    for n in range(2_000):
        engine.add(f'/o[c = "v{n}"]', id=n)
    for n in range(1_000):
        assert engine.match(b"<o><c>v%d</c></o>" % n) == [n]
        if n == 10:
            before = engine.kernel.stats()[3:]
    assert engine.kernel.stats()[3:] == before
