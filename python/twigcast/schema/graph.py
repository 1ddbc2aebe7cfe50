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
        """An attribute that passes this test."""
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
        """The declarations that pass a name test."""
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
        order = self._components
        of = {member: at for at, component in enumerate(order) for member in component}
        below: list[int] = [0] * len(self.declarations)
        done: list[int] = [0] * len(order)
        for at, component in enumerate(order):  # components come children first
            reached = mask_of(component) if self._is_loop(component) else 0
            for member in component:
                children = self.declarations[member].children
                reached |= children
                for child in self.members(children):
                    if of[child] != at:
                        reached |= done[of[child]]
            done[at] = reached
            for member in component:
                below[member] = reached
        return below

    @cached_property
    def _components(self) -> list[list[int]]:
        """Strongly connected components, callees first (Tarjan's algorithm, without recursion)."""
        index: dict[int, int] = {}
        low: dict[int, int] = {}
        stack: list[int] = []
        on_stack: set[int] = set()
        found: list[list[int]] = []
        for start in range(len(self.declarations)):
            if start in index:
                continue
            work: list[tuple[int, Iterator[int]]] = []
            index[start] = low[start] = len(index)
            stack.append(start)
            on_stack.add(start)
            work.append((start, self.members(self.declarations[start].children)))
            while work:
                node, children = work[-1]
                child = next(children, None)
                if child is None:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[node])
                    if low[node] == index[node]:
                        component = []
                        while True:
                            member = stack.pop()
                            on_stack.discard(member)
                            component.append(member)
                            if member == node:
                                break
                        found.append(component)
                elif child not in index:
                    index[child] = low[child] = len(index)
                    stack.append(child)
                    on_stack.add(child)
                    work.append((child, self.members(self.declarations[child].children)))
                elif child in on_stack:
                    low[node] = min(low[node], index[child])
        return found

    def _is_loop(self, component: list[int]) -> bool:
        return len(component) > 1 or bool(self.declarations[component[0]].children >> component[0] & 1)

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
