"""The element graph of a schema (broker §4.1): declarations, and which may stand directly inside which.

In a DTD a name has one declaration. In an XML Schema it may have several, with different contents, so that a node of
the graph is a declaration and not a name. Sets of declarations are bit masks (Python integers): the walks below are
unions and intersections of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from twigcast.ir.pattern import Step

XSI = "http://www.w3.org/2001/XMLSchema-instance"


@dataclass(slots=True)
class Declaration:
    """``ns`` or ``local`` None: unknown, or any (the content of a wildcard). ``children`` is a mask of declarations;
    ``any_attribute``: more attributes than those listed may occur."""

    ns: str | None
    local: str | None
    children: int = 0
    attributes: set[tuple[str, str]] = field(default_factory=set)
    has_text: bool = True
    any_attribute: bool = False

    def __str__(self) -> str:
        if self.local is None:
            return "any element"
        return f"{{{self.ns}}}{self.local}" if self.ns else self.local

    def passes(self, ns: str | None, local: str | None) -> bool:
        return (None in (ns, self.ns) or ns == self.ns) and (None in (local, self.local) or local == self.local)

    def may_have(self, ns: str | None, local: str | None) -> bool:
        """Return whether an attribute may occur that passes this test."""
        if self.any_attribute or ns == XSI:
            return True
        return any(ns in (None, one[0]) and local in (None, one[1]) for one in self.attributes)


class ElementGraph:
    """``roots`` is the mask of what may be the document element."""

    def __init__(self, declarations: Sequence[Declaration], roots: int) -> None:
        self.declarations = list(declarations)
        self.roots = roots

    def members(self, mask: int) -> Iterator[int]:
        while mask:
            low = mask & -mask
            yield low.bit_length() - 1
            mask ^= low

    def named(self, ns: str | None, local: str | None) -> int:
        """Return the declarations that pass a name test."""
        key = (ns, local)
        found = self._named.get(key)
        if found is None:
            found = self._named[key] = mask_of(i for i, d in enumerate(self.declarations) if d.passes(ns, local))
        return found

    @cached_property
    def _named(self) -> dict[tuple[str | None, str | None], int]:
        return {}

    # -- reachability

    @cached_property
    def below(self) -> list[int]:
        """What may occur below each declaration, at any depth; a declaration on a loop is below itself."""
        below = [one.children for one in self.declarations]
        children = [list(self.members(mask)) for mask in below]
        order = _inner_first(children)
        changed = True
        while changed:  # more than twice only where loops contain loops
            changed = False
            for at in order:
                reached = below[at] | union(below[child] for child in children[at])
                changed |= reached != below[at]
                below[at] = reached
        return below

    def all_below(self, mask: int) -> int:
        return union(self.below[one] for one in self.members(mask))

    def all_children(self, mask: int) -> int:
        return union(self.declarations[one].children for one in self.members(mask))

    # -- walks

    def walk(self, steps: Sequence[Step], start: int | None = None) -> list[int]:
        """For each step, the declarations that it may find: below the document, or below those of ``start``. For an
        attribute or text step: those of the elements that it may belong to."""
        found: list[int] = []
        at = start
        for step in steps:
            at = self.step(at, step)
            found.append(at)
        return found

    def step(self, at: int | None, step: Step) -> int:
        """``at`` None is the document."""
        deep = step.axis == "descendant"
        if step.kind == "element":
            if at is None:
                reached = self.roots | (self.all_below(self.roots) if deep else 0)
            else:
                reached = self.all_below(at) if deep else self.all_children(at)
            return reached & self.named(step.ns, step.local)
        if at is None:
            # The document has no attributes and no text of its own, but comments and the like.
            beside = self.roots if step.kind not in ("attribute", "text") else 0
            owners = (self.roots | self.all_below(self.roots)) if deep else beside
        else:
            owners = at | (self.all_below(at) if deep else 0)
        if step.kind == "attribute":
            return mask_of(i for i in self.members(owners) if self.declarations[i].may_have(step.ns, step.local))
        if step.kind == "text":
            return mask_of(i for i in self.members(owners) if self.declarations[i].has_text)
        return owners


def mask_of(members: Iterable[int]) -> int:
    mask = 0
    for member in members:
        mask |= 1 << member
    return mask


def union(masks: Iterable[int]) -> int:
    mask = 0
    for one in masks:
        mask |= one
    return mask


def _inner_first(children: list[list[int]]) -> list[int]:
    """Return the declarations in an order in which, loops apart, each comes after what it contains."""
    order: list[int] = []
    seen: set[int] = set()
    todo = [(at, False) for at in range(len(children))]
    while todo:
        at, done = todo.pop()
        if done:
            order.append(at)
        elif at not in seen:
            seen.add(at)
            todo.append((at, True))
            todo += [(child, False) for child in children[at]]
    return order
