"""Generated transforms without parsing each: their parts, of which there are few, are parsed once."""

from __future__ import annotations

import re
from functools import cache

from twigcast.ir.transform import Condition, Copy, Element, Groups, Hole, Name, Path, Source, Transform
from twigcast.lang.flwr import parse_transform

_FORM = re.compile(r"<result>\{ for \$v in (\S+)(?: where (.+))? return <(\w+)>(.*)</\w+> \}</result>")
_RETURN = re.compile(r"\{ \$v(\S+) \}")
_OUTER = Element(Name("", "result"), content=(Groups(),))


def assembled(query: str) -> Transform:
    """As ``parse_transform``, for what ``TransformGenerator`` makes."""
    found = _FORM.fullmatch(query)
    assert found is not None
    binding, where, name, holes = found.groups()
    copies = tuple(Hole((Copy(_returned(path)),)) for path in _RETURN.findall(holes))
    result = Element(Name("", name), content=copies)
    condition = None if where is None else _condition(where)
    return Transform(_OUTER, Source(), "v", _binding(binding), condition, (), (result,))


@cache
def _binding(path: str) -> Path:
    return parse_transform(f"<r>{{ for $v in {path} return $v }}</r>").binding


@cache
def _returned(path: str) -> Path:
    return parse_transform(f"<r>{{ for $v in //x return $v{path} }}</r>").return_paths[0]


@cache
def _condition(text: str) -> Condition | None:
    return parse_transform(f"<r>{{ for $v in //x where {text} return $v }}</r>").where
