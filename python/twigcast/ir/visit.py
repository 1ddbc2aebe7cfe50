"""Walk and rewrite the IR: `walk` yields a tree's parts, `find_all` those of some class, `transform` replaces them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeVar, dataclass_transform

from msgspec import Struct, field
from msgspec.structs import replace

__all__ = ["Part", "find_all", "replace", "transform", "walk"]

_T = TypeVar("_T")
_P = TypeVar("_P", bound="Part")
_WORD = re.compile(r"\w+")
_PLAIN = frozenset(("str", "int", "float", "bool", "None", "tuple", "Span"))
"""Names of types that are no parts and hold none."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Part(Struct, frozen=True, gc=False):
    """A part of the IR or of a syntax tree. It is immutable and compares by value.

    Parts refer to smaller parts only and never form a cycle, which is why the garbage collector does not follow them.
    """


def walk(tree: object) -> Iterator[Part]:
    """Yield a part, or those of a tuple, and all parts below: outer ones first, then in the order of their fields."""
    stack = [tree]
    while stack:
        one = stack.pop()
        if isinstance(one, Part):
            yield one
            stack.extend([getattr(one, name) for name in _inner(type(one))])
        elif isinstance(one, tuple):
            stack.extend(reversed(one))


def find_all(tree: object, *kinds: type[_P]) -> Iterator[_P]:
    """Yield the parts of these classes in a tree, in the order of `walk`."""
    return (part for part in walk(tree) if isinstance(part, kinds))


def transform(tree: _T, change: Callable[[Part], object]) -> _T:
    """Return a tree with `change` applied to each of its parts, inner ones first. What stays the same is shared."""
    found: Any = tree
    if isinstance(tree, Part):
        changed = {}
        for name in reversed(_inner(type(tree))):
            old = getattr(tree, name)
            new = transform(old, change)
            if new is not old:
                changed[name] = new
        found = change(replace(tree, **changed) if changed else tree)
    elif type(found) is tuple:
        parts = tuple([transform(one, change) for one in found])
        if not all(map(operator.is_, parts, found)):
            found = parts
    return found  # type: ignore[no-any-return]


@cache
def _inner(kind: type[Part]) -> tuple[str, ...]:
    """Return the names of the fields that may hold parts, by their annotations, the last one first."""
    texts = {name: text for base in kind.__mro__ for name, text in vars(base).get("__annotations__", {}).items()}
    return tuple([name for name in reversed(kind.__struct_fields__) if not set(_WORD.findall(texts[name])) <= _PLAIN])
