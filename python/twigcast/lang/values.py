"""Strings and numbers of XPath 1.0: conversions (section 4) and arithmetic on constants (section 3.5)."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable

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


def _substring(value: Constant, start: Constant, length: Constant | None = None) -> str:
    """Return the characters at the positions, from 1, that are in the range, whose ends are rounded (section 4.2)."""
    first = rounded("round", to_number(start))
    end = math.inf if length is None else first + rounded("round", to_number(length))
    return "".join(one for position, one in enumerate(to_string(value), 1) if first <= position < end)


def _around(value: Constant, part: Constant) -> tuple[str, str]:
    """Return what comes before and after the first place of ``part``; nothing and nothing if it is not there."""
    text, wanted = to_string(value), to_string(part)
    at = text.find(wanted)
    return ("", "") if at < 0 else (text[:at], text[at + len(wanted) :])


def _translate(value: Constant, old: Constant, new: Constant) -> str:
    """Return the text with each character of ``old`` replaced by that of ``new`` at its place, or left out."""
    before, after = to_string(old), to_string(new)
    table = {ord(one): after[at : at + 1] for at, one in reversed(list(enumerate(before)))}
    return to_string(value).translate(table)


STRING_FUNCTIONS: dict[str, Callable[..., Constant]] = {
    "concat": lambda *values: "".join(map(to_string, values)),
    "starts-with": lambda value, start: to_string(value).startswith(to_string(start)),
    "contains": lambda value, part: to_string(part) in to_string(value),
    "substring-before": lambda value, part: _around(value, part)[0],
    "substring-after": lambda value, part: _around(value, part)[1],
    "substring": _substring,
    "string-length": lambda value: float(len(to_string(value))),
    "normalize-space": lambda value: " ".join(re.findall("[^ \t\r\n]+", to_string(value))),
    "translate": _translate,
}
"""String functions of XPath 1.0 (section 4.2), by name, for arguments that are constants."""
