"""XML Schema -> element graph, through the xmlschema package. Where the schema is open (wildcards, anyType), so is the
graph: it must never rule out what a valid message may hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twigcast.schema.graph import Declaration, ElementGraph

_XS = "{http://www.w3.org/2001/XMLSchema}"


def graph_of(schema: Any, roots: tuple[str, ...] = ()) -> ElementGraph:
    """``roots`` default to every global element: any of them may be a valid document."""
    return _Builder(schema).graph(roots)


class _Builder:
    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.declarations: list[Declaration] = []
        self.numbers: dict[tuple[str, int], int] = {}
        self.todo: list[tuple[int, Any]] = []
        self.anything: int | None = None
        self.derived = self._derived()

    def graph(self, roots: tuple[str, ...]) -> ElementGraph:
        mask = 0
        for name, element in self.schema.maps.elements.items():
            if isinstance(name, str) and not name.startswith(_XS) and (not roots or name in roots):
                for one in self.substitutes(element):
                    mask |= 1 << self.number(one)
        while self.todo:
            number, kind = self.todo.pop()
            self.fill(self.declarations[number], kind)
        return ElementGraph(self.declarations, mask)

    def _derived(self) -> dict[int, list[Any]]:
        """For each type, the named types derived from it: xsi:type may put one in its place."""
        found: dict[int, list[Any]] = {}
        for kind in self.schema.maps.types.values():
            base = kind
            while getattr(base, "base_type", None) is not None and base.base_type is not base:
                base = base.base_type
                found.setdefault(id(base), []).append(kind)
        return found

    def substitutes(self, element: Any) -> Iterator[Any]:
        """Yield an element and the members of its substitution group, which may occur wherever it may."""
        seen: set[str] = set()
        stack = [element]
        while stack:
            one = stack.pop()
            if one.name in seen:
                continue
            seen.add(one.name)
            yield one
            stack += list(self.schema.maps.substitution_groups.get(one.name, ()))

    def number(self, element: Any) -> int:
        key = (element.name, id(element.type))
        if key not in self.numbers:
            ns, local = _split(element.name)
            self.numbers[key] = len(self.declarations)
            self.declarations.append(Declaration(ns, local))
            self.todo.append((self.numbers[key], element.type))
        return self.numbers[key]

    def any_element(self) -> int:
        if self.anything is None:
            self.anything = len(self.declarations)
            self.declarations.append(Declaration(None, None, 1 << self.anything, any_attribute=True))
        return self.anything

    def fill(self, declaration: Declaration, kind: Any) -> None:
        for one in (kind, *(() if kind.name == f"{_XS}anyType" else self.derived.get(id(kind), ()))):
            self.add(declaration, one)

    def add(self, declaration: Declaration, kind: Any) -> None:
        if kind.name == f"{_XS}anyType":
            declaration.children |= 1 << self.any_element()
            declaration.any_attribute = True
            return
        for name in getattr(kind, "attributes", None) or ():
            if name is None:
                declaration.any_attribute = True
            else:
                declaration.attributes.add(_split(name))
        content = getattr(kind, "content", None)
        if content is None or not hasattr(content, "iter_elements"):
            return  # simple content
        for particle in content.iter_elements():
            if particle.name is None:
                declaration.children |= 1 << self.any_element()
            else:
                for one in self.substitutes(particle.ref or particle):
                    declaration.children |= 1 << self.number(one)


def _split(name: str) -> tuple[str, str]:
    if name.startswith("{"):
        ns, _, local = name[1:].partition("}")
        return ns, local
    return "", name
