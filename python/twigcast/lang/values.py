"""Strings and numbers of XPath 1.0: conversions (section 4) and arithmetic on constants (section 3.5)."""

from __future__ import annotations

import math
import operator
import re

from twigcast.lang.printer import number_text

Constant = str | float | bool

_NUMBER = re.compile(r"[ \t\r\n]*(-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))[ \t\r\n]*")
_ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def to_number(value: Constant) -> float:
    if isinstance(value, str):
        found = _NUMBER.fullmatch(value)
        return float(found[1]) if found else math.nan
    return float(value)


def to_string(value: Constant) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0"
    return ("-" if value < 0 else "") + number_text(abs(value))


def to_boolean(value: Constant) -> bool:
    if isinstance(value, float):
        return not (value == 0 or math.isnan(value))
    return bool(value)


def compare(left: Constant, op: str, right: Constant) -> bool:
    """Section 3.4, for two values that are not node-sets."""
    if op in _ORDER:
        return bool(_ORDER[op](to_number(left), to_number(right)))
    if isinstance(left, bool) or isinstance(right, bool):
        equal = to_boolean(left) == to_boolean(right)
    elif isinstance(left, float) or isinstance(right, float):
        equal = to_number(left) == to_number(right)
    else:
        equal = left == right
    return equal if op == "=" else not equal


def calculate(op: str, left: float, right: float) -> float:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "mod":
            return math.nan if right == 0 or math.isinf(left) else math.fmod(left, right)
    if right == 0:
        if left == 0 or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1, right)
    return left / right


def rounded(name: str, value: float) -> float:
    """floor(), ceiling() and round(), which rounds halves up; what comes to zero keeps its sign (section 4.4)."""
    if not math.isfinite(value):
        return value
    whole = math.ceil(value) if name == "ceiling" else math.floor(value)
    if name == "round" and value - whole >= 0.5:
        whole += 1
    return math.copysign(whole, value) if whole == 0 else float(whole)
