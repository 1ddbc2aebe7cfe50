"""Frozen dataclasses that are quick to make: every new shape of a subscription is some dozens of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar

_T = TypeVar("_T")


def quick(cls: type[_T]) -> type[_T]:
    """Decorates a dataclass with ``frozen`` and ``slots``: the same, made several times as fast.

    The ``__init__`` that ``dataclasses`` writes has to look up how to set each field in spite of the class's own
    ``__setattr__``; this one has the slots themselves at hand. Slots that are no fields, where an object remembers what
    it was asked once, begin as None: asking for what is not there raises, which takes ten times as long.
    """
    names = [one.name for one in fields(cls)]  # type: ignore[arg-type]
    every = [name for base in cls.__mro__ for name in base.__dict__.get("__slots__", ())]
    values = {name: name if name in names else "None" for name in every}
    known: dict[str, Any] = {f"_set_{name}": getattr(cls, name).__set__ for name in values}
    lines = [f"_set_{name}(self, {value})" for name, value in values.items()]
    exec(f"def __init__(self, {', '.join(names)}):\n    " + "\n    ".join(lines), known)
    made, usual = known["__init__"], cls.__init__
    made.__defaults__ = usual.__defaults__
    made.__annotations__ = usual.__annotations__
    made.__qualname__ = f"{cls.__qualname__}.__init__"

    def __setstate__(self: Any, state: Sequence[Any]) -> None:
        made(self, *state)

    cls.__init__ = made  # type: ignore[method-assign]
    cls.__setstate__ = __setstate__  # type: ignore[attr-defined]
    return cls
