"""Constants that are short decimals are kept as whole numbers: comparisons say what those of doubles say."""

from __future__ import annotations

import math
import operator
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from twigcast import Engine, Subscription

OPERATORS = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
# Each list is harder to keep in the form that the ones before it have.
WHOLE = ["0", "-0", "1", "-1", "7", "50", "-128", "99999"]
CENTS = ["0.1", "0.3", "1.005", "-12.75", "0.29", "0.57", "21474.83", "3.10", ".5"]
FINE = ["0.000000001", "-2.123456789", "0.0000001"]
LARGE = ["2147483646", "2147483647", "-2147483646", "-2147483648", "4294967296", "21474836.46", "21474836.47"]
ODD = ["0.30000000000000004", "123456789012345678901234567890", "0.00000000000000000001", "9" * 400, "-" + "9" * 400]
STAGES = [WHOLE, CENTS, FINE, LARGE, ODD]


def about(constant: str) -> list[str]:
    """It, and the doubles next to it, written out."""
    x = float(constant)
    if math.isinf(x):
        return [constant]
    return [constant, *(format(Decimal(math.nextafter(x, to)), "f") for to in (-math.inf, math.inf))]


VALUES = [*(v for stage in STAGES for c in stage for v in about(c)), "x", "", "0.05", "2147483646.5", "-0.0"]


def number(text: str) -> float:
    return float(text) if text.strip("-.0123456789") == "" and text else math.nan


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("stages", [STAGES, STAGES[:2], STAGES[::-1], [ODD, WHOLE], [CENTS, LARGE]])
def test_comparisons_with_decimals(op: str, stages: list[list[str]], tmp_path: Path) -> None:
    """One bucket grows from stage to stage, small at first and then sorted."""
    random = Random(op)
    engine, there = Engine(), {}
    for n, stage in enumerate(stages):
        added = {1000 * n + i: random.choice(stage) for i in range(random.choice([2, 40, 150]))}
        there.update(added)
        engine.add_many(Subscription(id, f'/r[s = "a"][p {op} {constant}]') for id, constant in added.items())
        for id in random.sample(sorted(there), len(there) // 4):
            engine.remove(id)
            del there[id]
        if n == 1:
            engine.save(tmp_path / "set")
            engine = Engine.open(tmp_path / "set")
        lists = [[v] for v in VALUES] + [random.choices(VALUES, k=3) for _ in range(20)]
        texts = [f"<r><s>a</s>{''.join(f'<p>{v}</p>' for v in some)}</r>".encode() for some in lists]
        holds = OPERATORS[op]
        want = [
            sorted(id for id, c in there.items() if any(holds(number(v), number(c)) for v in some)) for some in lists
        ]
        batch = pa.record_batch({"id": list(range(len(texts))), "xml": pa.array(texts, pa.binary())})
        ids = engine.ids.to_pylist()
        assert [sorted(ids[i] for i in m) for m in engine.match_batch(batch)["matches"].to_pylist()] == want
        assert sorted(engine.match(texts[5])) == want[5]


def test_several_columns_each_with_its_scale() -> None:
    random = Random(1)
    engine = Engine()
    rows = [tuple(random.choice(stage) for stage in (WHOLE, CENTS, FINE)) for _ in range(300)]
    rows += [(random.choice(CENTS), random.choice(WHOLE), "0.1234567890123")]
    engine.add_many(
        Subscription(i, f'/r[s = "a"][p > {a}][p < {b}][q >= {c}]') for i, (a, b, c) in enumerate(rows)
    )  # fmt: skip
    for _ in range(100):
        p, q = random.choice(VALUES), random.choice(VALUES)
        want = [
            i for i, (a, b, c) in enumerate(rows)
            if number(p) > float(a) and number(p) < float(b) and number(q) >= float(c)
        ]  # fmt: skip
        assert sorted(engine.match(f"<r><s>a</s><p>{p}</p><q>{q}</q></r>".encode())) == want


def test_decimals_take_half_the_memory() -> None:
    """Of a row: a number takes four bytes, and eight once one of them is no short decimal."""
    sizes = []
    for odd in ("1.25", "0.30000000000000004"):
        engine = Engine()
        engine.add_many(Subscription(i, f'/r[s = "a"][p > {i}.25][q < {i}.5][t < {i}]') for i in range(20_000))
        engine.add(f'/r[s = "a"][p > {odd}][q < 1][t < 2]', id="odd")
        engine.match(b"<r/>")
        sizes.append(engine.kernel.stats()[2])
    assert sizes[1] - sizes[0] > 3 * 4 * 20_000 * 0.9
