"""Numbers of XPath 1.0 at their edges."""

from __future__ import annotations

import math

import pytest

from twigcast.ir.pattern import FALSE, TRUE, Pattern
from twigcast.lang.compile import compile_query
from twigcast.lang.values import rounded


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("floor", -0.0, -0.0),
        ("floor", 0.5, 0.0),
        ("floor", -0.5, -1.0),
        ("ceiling", -0.5, -0.0),
        ("ceiling", -0.0, -0.0),
        ("ceiling", 0.5, 1.0),
        ("round", -0.0, -0.0),
        ("round", -0.5, -0.0),
        ("round", -0.1, -0.0),
        ("round", -0.6, -1.0),
        ("round", 2.5, 3.0),
        ("round", -2.5, -2.0),
        # value + 0.5 is not exact for these
        ("round", 0.49999999999999994, 0.0),
        ("round", 4503599627370497.0, 4503599627370497.0),
        ("round", -4503599627370497.0, -4503599627370497.0),
        ("round", 1e300, 1e300),
        ("floor", math.inf, math.inf),
        ("round", -math.inf, -math.inf),
    ],
)
def test_rounding(name: str, value: float, expected: float) -> None:
    found = rounded(name, value)
    assert (found, math.copysign(1, found)) == (expected, math.copysign(1, expected))
    assert math.isnan(rounded(name, math.nan))


@pytest.mark.parametrize("expr", ["floor(-0)", "ceiling(-0.1)", "ceiling(-0)", "round(-0.1)", "round(-0)"])
def test_one_by_a_negative_zero(expr: str) -> None:
    assert compile_query(f"1 div {expr} = -1 div 0") == Pattern(TRUE, None)
    assert compile_query(f"1 div {expr} = 1 div 0") == Pattern(FALSE, None)
