"""Random documents from a DTD, after IBM's XML Generator as the papers set it (broker §6.1).

A document is valid wherever the DTD's required content fits into ``depth`` levels; below that it is cut.
Only ``Random.random`` is used: it is the one method Python promises to keep the same from version to version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from twigcast.errors import OptionError
from twigcast.schema.dtd import Attribute, Dtd, Element, Particle, need, need_once

Chance: TypeAlias = Callable[[], float]
# Appends the names of one random content to the list; None stands for a piece of text.
Expand: TypeAlias = Callable[[Chance, int, list[str | None]], None]
Repeats: TypeAlias = int | tuple[int, int]


@dataclass(slots=True)
class _Shape:
    """An element declaration, made ready for the loop."""

    start: str
    end: str
    empty: str
    attributes: list[tuple[float, str, tuple[str, ...]]]
    expand: Expand | None
    least: list[str | None]
    only_text: bool


class DocumentGenerator:
    """Documents of one DTD and setting. ``document(i)`` depends on the seed and ``i``, not on how many are asked for.

    ``repeats`` overrides ``max_repeats`` by element: a most, or (least, most). A repeated group takes the largest
    setting among its members.
    """

    def __init__(
        self,
        dtd: Dtd,
        *,
        root: str | None = None,
        depth: int = 6,
        max_repeats: int = 3,
        repeats: Mapping[str, Repeats] | None = None,
        max_value: int = 20,
        attributes: float = 0.5,
        max_elements: int = 20_000,
        seed: int = 0,
    ) -> None:
        for name, value, least, most in (
            ("depth", depth, 1, 100_000),
            ("max_repeats", max_repeats, 0, 1_000_000),
            ("max_value", max_value, 1, 10**30),
        ):
            if not least <= value <= most:
                raise OptionError("out-of-range", f"{name} is {value}; it must be from {least} to {most}")
        if not 0 <= attributes <= 1:
            raise OptionError("out-of-range", f"attributes is {attributes}; a probability lies between 0 and 1")
        for name in repeats or {}:
            if name not in dtd.elements:
                raise OptionError("unknown-element", f"repeats names {name!r}, which the DTD does not declare")
        self._dtd = dtd
        self._root = dtd.check_root(root)
        self._depth = depth
        self._default_repeats = (0, max_repeats)
        self._repeats = {name: r if isinstance(r, tuple) else (0, r) for name, r in (repeats or {}).items()}
        self._max_value = max_value
        self._odds = attributes
        self._max_elements = max_elements
        self._seed = seed
        self._shapes = {name: self._shape(element) for name, element in dtd.elements.items()}
        for name in {child for e in dtd.elements.values() for child in e.children} - set(dtd.elements):
            self._shapes[name] = self._shape(Element(name, None, (), (), False))
        self._root_extra = self._undeclared_prefixes()

    def documents(self, count: int, start: int = 0) -> Iterator[bytes]:
        for index in range(start, start + count):
            yield self.document(index)

    def document(self, index: int) -> bytes:
        chance = Random(f"{self._seed}/{index}").random
        shapes, depth, most, n = self._shapes, self._depth, self._max_elements, self._max_value
        out: list[str] = []
        write = out.append
        ids = 0
        references: list[tuple[int, str, bool]] = []  # where in ``out``, the attribute, may it be left away
        level = elements = 0
        children: list[str | None] = []
        todo: list[str | tuple[str] | None] = [(self._root,)]  # (name,) to open, None for text, a str to close
        while todo:
            item = todo.pop()
            if item is None:
                write(str(int(chance() * n) + 1))
                continue
            if isinstance(item, str):
                write(item)
                level -= 1
                continue
            shape = shapes[item[0]]
            elements += 1
            write(shape.start)
            if elements == 1 and self._root_extra:
                write(self._root_extra)
            for odds, kind, data in shape.attributes:
                if odds < 1.0 and chance() >= odds:
                    continue
                if kind == "number":
                    write(f'{data[0]}{int(chance() * n) + 1}"')
                elif kind == "one-of":
                    write(data[int(chance() * len(data))])
                elif kind == "id":
                    ids += 1
                    write(f'{data[0]}i{ids}"')
                else:
                    references.append((len(out), data[0], kind == "idref"))
                    write("")
            if shape.only_text:
                write(f">{int(chance() * n) + 1}{shape.end}")
                continue
            if shape.expand is None:
                write("/>")
                continue
            if elements < most:
                children = []
                shape.expand(chance, depth - level - 1, children)
            else:
                children = shape.least if level + 1 < depth else []
            if not children:
                write(shape.empty)
                continue
            write(">")
            level += 1
            todo.append(shape.end)
            todo += [None if child is None else (child,) for child in reversed(children)]
        for at, text, optional in references:
            if ids or not optional:  # an ID to point at may come later in the document, or never
                out[at] = f'{text}i{int(chance() * max(ids, 1)) + 1}"'
        write("\n")
        return "".join(out).encode()

    def _shape(self, element: Element) -> _Shape:
        content = element.content
        only_text = element.has_text and not element.children
        least: list[str | None] = []
        if content is not None:
            self._least(content, least)
        return _Shape(
            start=f"<{element.name}",
            end=f"</{element.name}>",
            empty=f"></{element.name}>",
            attributes=[a for a in map(self._attribute, element.attributes) if a is not None],
            expand=None if content is None else self._expand(content),
            least=least,
            only_text=only_text,
        )

    def _attribute(self, attribute: Attribute) -> tuple[float, str, tuple[str, ...]] | None:
        text = f' {attribute.name}="'
        namespace = attribute.name == "xmlns" or attribute.name.startswith("xmlns:")
        odds = 1.0 if attribute.default == "required" or namespace else self._odds
        if attribute.default == "fixed" or namespace:
            return odds, "one-of", (f'{text}{_escape(attribute.default_value or "")}"',)
        if attribute.type in ("enumeration", "notation"):
            return odds, "one-of", tuple(f'{text}{_escape(value)}"' for value in attribute.values)
        if attribute.type == "id":
            return odds, "id", (text,)
        if attribute.type in ("idref", "idrefs"):
            return odds, "required-idref" if attribute.default == "required" else "idref", (text,)
        if attribute.type in ("entity", "entities") and attribute.default != "required":
            return None  # it must name an unparsed entity, and a document without a DOCTYPE has none
        return odds, "number", (text,)

    def _range(self, particle: Particle) -> tuple[int, int]:
        names = [particle.name] if particle.kind == "name" else [p.name for p in particle.parts if p.kind == "name"]
        given = [self._repeats[name] for name in names if name in self._repeats]
        least, most = max(given, key=lambda r: (r[1], r[0])) if given else self._default_repeats
        if particle.occurs == "plus":
            least = max(1, least)
        return least, max(least, most)

    def _expand(self, particle: Particle) -> Expand:
        once = self._once(particle)
        needed = need_once(particle, self._dtd.heights)
        if particle.occurs == "once":
            return once
        if particle.occurs == "opt":

            def optional(chance: Chance, room: int, out: list[str | None]) -> None:
                if needed <= room and chance() < 0.5:
                    once(chance, room, out)

            return optional
        least, most = self._range(particle)
        required = particle.occurs == "plus"
        ensure_text = any(part.kind == "text" for part in particle.parts)

        def repeated(chance: Chance, room: int, out: list[str | None]) -> None:
            if needed <= room:
                for _ in range(least + int(chance() * (most - least + 1))):
                    once(chance, room, out)
            elif required:
                once(chance, room, out)
            if ensure_text and not out:  # mixed content that came out empty says more with a value in it
                out.append(None)

        return repeated

    def _once(self, particle: Particle) -> Expand:
        if particle.kind == "name":
            return _name(particle.name)
        if particle.kind == "text":
            return _text
        parts = [self._expand(part) for part in particle.parts]
        if particle.kind == "seq":

            def sequence(chance: Chance, room: int, out: list[str | None]) -> None:
                for part in parts:
                    part(chance, room, out)

            return sequence
        needs = [need(part, self._dtd.heights) for part in particle.parts]
        least, most = min(needs), max(needs)
        fitting: dict[int, list[Expand]] = {}

        def choice(chance: Chance, room: int, out: list[str | None]) -> None:
            candidates = parts
            if most > room:
                # Where nothing fits the cut is near: take what needs least.
                candidates = fitting.get(room) or [
                    part for part, n in zip(parts, needs, strict=True) if n <= max(room, least)
                ]
                fitting[room] = candidates
            candidates[int(chance() * len(candidates))](chance, room, out)

        return choice

    def _least(self, particle: Particle, out: list[str | None]) -> None:
        """Append the smallest valid content: all that is written once ``max_elements`` is reached."""
        if particle.kind == "text":
            out.append(None)
        elif particle.occurs in ("opt", "mult"):
            if any(part.kind == "text" for part in particle.parts):
                out.append(None)
        elif particle.kind == "name":
            out.append(particle.name)
        elif particle.kind == "seq":
            for part in particle.parts:
                self._least(part, out)
        else:
            self._least(min(particle.parts, key=lambda part: need(part, self._dtd.heights)), out)

    def _undeclared_prefixes(self) -> str:
        """Return declarations for prefixes that the DTD uses and never binds; no parser reads documents without."""
        elements = self._dtd.elements.values()
        names = [*self._shapes, *(a.name for e in elements for a in e.attributes)]
        bound = {a.name[6:] for e in elements for a in e.attributes if a.name.startswith("xmlns:")} | {"xml", "xmlns"}
        used = {name.partition(":")[0] for name in names if ":" in name}
        return "".join(f' xmlns:{prefix}="urn:{prefix}"' for prefix in sorted(used - bound))


def _name(name: str) -> Expand:
    def expand(chance: Chance, room: int, out: list[str | None]) -> None:
        if room >= 1:
            out.append(name)

    return expand


def _text(chance: Chance, room: int, out: list[str | None]) -> None:
    if not out or out[-1] is not None:  # two in a row would read as one number
        out.append(None)


def _escape(value: str) -> str:
    return value.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
