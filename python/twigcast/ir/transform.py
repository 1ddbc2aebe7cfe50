"""A transform: what FLWR text compiles to. One binding path, conditions on it, and the template its groups fill.

Paths come twice: as canonical XPath text (``{uri}name``, relative to the bound node, or from the document for the
binding path), and as a twig for the engines, None where no tree pattern says the same. What is
constant and what is a hole is told apart here once, so that a message factory only ever walks the template.
Everything is immutable and compares by value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from twigcast.ir.pattern import Predicate, Reason, Twig
from twigcast.ir.visit import Part


class Path(Part):
    """``kind`` is that of the nodes it finds; ``.`` (no steps) is the bound node itself."""

    text: str
    kind: str
    twig: Twig | None

    @property
    def is_self(self) -> bool:
        return self.text == "."


class Condition(Part):
    """The where clause: a boolean XPath expression on the bound node; ``predicate`` None: no tree pattern."""

    text: str
    predicate: Predicate | None


# -- items: what stands in braces


class Copy(Part):
    """The nodes of a path, copied; in an attribute value, their string-values."""

    path: Path


class Constant(Part):
    value: str


class Function(Part):
    """``count sum min max avg string concat``, and ``number`` in order by. Where one node is wanted, the first in
    document order is meant (SEMANTICS 7)."""

    name: str
    arguments: tuple[Item, ...]


Item: TypeAlias = "Copy | Constant | Function"


# -- the template


class Name(Part):
    ns: str
    local: str
    prefix: str = ""

    def __str__(self) -> str:
        return f"{self.prefix}:{self.local}" if self.prefix else self.local


class Hole(Part):
    """A sequence in braces; neighbouring strings of one hole are set apart by a space, those of two are not."""

    items: tuple[Item | Element, ...]


class Attribute(Part):
    name: Name
    parts: tuple[str | Hole, ...]


class Comment(Part):
    text: str


class Instruction(Part):
    target: str
    text: str


class Groups(Part):
    """The place of the FLWR expression in the outer element."""


class Element(Part):
    """A constant element. ``declared`` are the namespaces that its own tag declares."""

    name: Name
    declared: tuple[tuple[str, str], ...] = ()
    attributes: tuple[Attribute, ...] = ()
    content: tuple[Content, ...] = ()


Content: TypeAlias = "str | Hole | Element | Comment | Instruction | Groups"


class OrderKey(Part):
    value: Item
    descending: bool = False
    empty_greatest: bool = False

    @property
    def numeric(self) -> bool:
        return isinstance(self.value, Function) and self.value.name not in ("string", "concat")


class Source(Part):
    """Where the binding path starts: ``doc``, ``stream``, or nothing said (the message in any case)."""

    kind: str = ""
    name: str = ""


class Transform(Part):
    """``variable`` is only for print-out. ``reasons`` tell why, where some path or condition is no tree pattern."""

    outer: Element
    source: Source
    variable: str
    binding: Path
    where: Condition | None
    order: tuple[OrderKey, ...]
    result: tuple[Item | Element, ...]
    reasons: tuple[Reason, ...] = ()

    @property
    def return_paths(self) -> tuple[Path, ...]:
        """The distinct paths of the return and order clauses, as they come; ``{ $v }`` needs none."""
        found: dict[Path, None] = {}
        for item in items_of(self.result):
            if isinstance(item, Copy) and not item.path.is_self:
                found[item.path] = None
        for key in self.order:
            for item in items_of((key.value,)):
                if isinstance(item, Copy) and not item.path.is_self:
                    found[item.path] = None
        return tuple(found)

    @property
    def is_pattern(self) -> bool:
        """Whether tree patterns say it all, so that plans can be made of it."""
        return not self.reasons


def items_of(parts: tuple[Content | Item, ...]) -> Iterator[Item]:
    """The items of a template, arguments too, in the order of the text."""
    for part in parts:
        match part:
            case Copy() | Constant():
                yield part
            case Function(_, arguments):
                yield part
                yield from items_of(arguments)
            case Hole(items):
                yield from items_of(items)
            case Element(_, _, attributes, content):
                for attribute in attributes:
                    yield from items_of(attribute.parts)
                yield from items_of(content)
