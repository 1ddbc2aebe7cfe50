"""Frozen dataclasses that are quick to define and to make: every new shape of a subscription is some dozens of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[_T]) -> type[_T]:
    """Make a class what ``dataclass(frozen=True, slots=True)`` makes it, in a fraction of the time.

    ``dataclasses`` compiles six methods for each class, and its ``__init__`` looks up how to set each field in spite of
    the class's own ``__setattr__``. Here three are compiled at once, and ``__init__`` has the slots themselves at hand.
    Slots that are no fields, where an object remembers what it was asked once, begin as None.
    """
    cls.__doc__ = cls.__doc__ or cls.__name__  # else ``dataclass`` makes one, from a signature
    cls = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    every = fields(cls)  # type: ignore[arg-type]
    names = [one.name for one in every]
    slots = [name for base in cls.__mro__ for name in base.__dict__.get("__slots__", ())]
    values = {name: name if name in names else "None" for name in slots}
    known: dict[str, Any] = {f"_set_{name}": getattr(cls, name).__set__ for name in values}
    compared = [one.name for one in every if one.compare]
    own, others = ("".join(f"{of}.{name}, " for name in compared) for of in ("self", "other"))
    lines = [f"    _set_{name}(self, {value})" for name, value in values.items()]
    source = [f"def __init__({', '.join(['self', *names])}):", *(lines or ["    pass"])]
    source += ["def __eq__(self, other):", "    if other.__class__ is not self.__class__:"]
    source += ["        return NotImplemented", f"    return ({own}) == ({others})"]
    source += ["def __hash__(self):", f"    return hash(({own}))"]
    exec("\n".join(source), known)
    made = known["__init__"]
    made.__defaults__ = tuple(one.default for one in every if one.default is not MISSING)
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__annotations__ = {one.name: one.type for one in every}

    def __setstate__(self: Any, state: Sequence[Any]) -> None:
        made(self, *state)

    known |= {"__setstate__": __setstate__, "__getstate__": _state, "__repr__": _shown}
    for name in ("__init__", "__eq__", "__hash__", "__setstate__", "__getstate__", "__repr__"):
        if name not in vars(cls) or vars(cls)[name] is None:
            setattr(cls, name, known[name])
    cls.__setattr__ = _refuse  # type: ignore[method-assign]
    cls.__delattr__ = _refuse  # type: ignore[method-assign]
    return cls


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in fields(self)]


def _shown(self: Any) -> str:
    parts = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({', '.join(parts)})"


def _refuse(self: Any, name: str, *value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to or delete field {name!r}")
