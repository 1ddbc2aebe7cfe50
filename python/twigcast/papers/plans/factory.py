"""A template filled with nodes of messages, as bytes (SEMANTICS 14-16).

Namespaces follow XQuery's defaults (copy-namespaces preserve, inherit): a copy keeps all that were in scope at its
source, a constructed element has what its tag and its ancestors' declare and what its names need. Declarations are
written where they first differ from what stands around. Where XQuery would raise an error for a second attribute of
one name, the first stands: nothing fails at run time in a broker.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lxml import etree

from twigcast.ir.transform import (
    Comment,
    Constant,
    Content,
    Copy,
    Element,
    Function,
    Hole,
    Instruction,
    Item,
    Path,
)
from twigcast.lang.names import XML_NAMESPACE
from twigcast.lang.values import to_number, to_string
from twigcast.papers.plans.nodes import Node
from twigcast.transform.encode import Scope, declarations, escaped, quoted


class TooLong(Exception):
    """The new message has more bytes than it may have."""


class Group:
    """What the holes of a template are filled from."""

    def nodes(self, path: Path) -> list[Node]:
        """Return the nodes that a path finds, in document order."""
        raise NotImplementedError


def filled(template: Element, group: Group, most: int | None = None) -> bytes:
    """Return a template whose holes are all filled from one group; TooLong if it has more than ``most`` bytes."""
    out = Writer(Room(most))
    out.element(template, group, {}, "", nested=False)
    return out.made()


class Room:
    """How many characters a new message may have, and with it every value and all sort keys that it is made of.

    No character has less than a byte: the bytes of the message are counted at its end.
    """

    def __init__(self, most: int | None) -> None:
        self.most = math.inf if most is None else most

    def joined(self, values: Iterable[str], between: str = "") -> str:
        """Return the values as one. Raises TooLong before that takes more than it may."""
        parts: list[str] = []
        size = 0
        for value in values:
            size += len(value) + len(between)
            if size - len(between) > self.most:
                raise TooLong
            parts.append(value)
        return between.join(parts)


# -- values


def atoms(item: Item, group: Group, room: Room) -> Iterator[str]:
    """Yield an item as strings: those of its nodes, or the one of a function; none for min() of nothing."""
    match item:
        case Constant(value):
            yield value
        case Copy(path):
            for node in group.nodes(path):
                yield node.value
        case Function(name, arguments):
            if name == "concat":
                yield room.joined(first_of(argument, group, room) for argument in arguments)
                return
            if name == "string":
                yield first_of(arguments[0], group, room)
                return
            number = number_of(item, group, room)
            if number is not None:
                yield to_string(number)


def first_of(item: Item, group: Group, room: Room) -> str:
    return next(atoms(item, group, room), "")


def number_of(item: Function, group: Group, room: Room) -> float | None:
    of = item.arguments[0]
    if item.name == "count" and isinstance(of, Copy):
        return float(len(group.nodes(of.path)))
    values = atoms(of, group, room)
    if item.name == "count":
        return float(sum(1 for _ in values))
    if item.name == "number":
        return next(map(to_number, values), math.nan)
    numbers = [to_number(value) for value in values]
    if item.name == "sum":
        return sum(numbers, 0.0)
    if not numbers:
        return None
    if item.name == "avg":
        return sum(numbers, 0.0) / len(numbers)
    if any(map(math.isnan, numbers)):
        return math.nan
    return min(numbers) if item.name == "min" else max(numbers)


# -- text


class Writer:
    """Writes constructed elements and copies of nodes."""

    def __init__(self, room: Room) -> None:
        self.text: list[str] = []
        self.room = room
        self.left = room.most

    def put(self, text: str) -> None:
        self.left -= len(text)
        if self.left < 0:
            raise TooLong
        self.text.append(text)

    def made(self) -> bytes:
        """Return what has been written."""
        made = "".join(self.text).encode()
        if len(made) > self.room.most:
            raise TooLong
        return made

    def element(self, element: Element, group: Group | None, scope: Scope, default: str, *, nested: bool) -> None:
        wanted, default = declarations(element, scope, default, nested=nested)
        attributes: dict[tuple[str, str], tuple[str, str]] = {}
        left = self.left
        for one in element.attributes:
            parts = (part if isinstance(part, str) else self.joined(part, group) for part in one.parts)
            value = self.room.joined(parts)
            left -= len(value)
            if left < 0:
                raise TooLong
            attributes[one.name.ns, one.name.local] = str(one.name), value
        for node in self.copied_attributes(element.content, group):
            if (node.ns, node.local) not in attributes:
                attributes[node.ns, node.local] = attribute_name(node, wanted), node.text
        inner = self.start(str(element.name), wanted, attributes.values(), scope)
        at = len(self.text)
        for part in element.content:
            self.content(part, group, inner, default)
        self.finish(str(element.name), at)

    def start(self, name: str, wanted: Scope, attributes: Any, scope: Scope) -> Scope:
        fresh = {p: uri for p, uri in wanted.items() if scope.get(p, "") != uri and p != "xml"}
        self.put("<" + name)
        for prefix, uri in sorted(fresh.items()):
            self.put(f' xmlns{":" if prefix else ""}{prefix}="{quoted(uri)}"')
        for attribute, value in attributes:
            self.put(f' {attribute}="{quoted(value)}"')
        self.put(">")
        return {**scope, **fresh} if fresh else scope

    def finish(self, name: str, at: int) -> None:
        if len(self.text) == at:
            self.text[-1] = "/>"  # in place of ">"
        else:
            self.put(f"</{name}>")

    def copied_attributes(self, content: Sequence[Content], group: Group | None) -> list[Node]:
        found: list[Node] = []
        for part in content:
            for item in part.items if isinstance(part, Hole) else ():
                if isinstance(item, Copy) and item.path.kind == "attribute" and group is not None:
                    found += group.nodes(item.path)
        return found

    def joined(self, hole: Hole, group: Group | None) -> str:
        """Return an attribute value: everything as strings, with a space between."""

        def values() -> Iterator[str]:
            for item in hole.items:
                if isinstance(item, Constant):
                    yield item.value
                elif not isinstance(item, Element) and group is not None:
                    yield from atoms(item, group, self.room)

        return self.room.joined(values(), " ")

    def content(self, part: Content, group: Group | None, scope: Scope, default: str) -> None:
        match part:
            case str():
                self.put(escaped(part))
            case Element():
                self.element(part, group, scope, default, nested=True)
            case Comment(text):
                self.put(f"<!--{text}-->")
            case Instruction(target, text):
                self.put(f"<?{target} {text}?>" if text else f"<?{target}?>")
            case Hole(items):
                self.sequence(items, group, scope, default)

    def sequence(
        self,
        items: Sequence[Item | Element],
        group: Group | None,
        scope: Scope,
        default: str,
        after_string: bool = False,
    ) -> bool:
        """Whether it ended with a string, so that the next one has to keep its distance."""
        for item in items:
            if isinstance(item, Element):
                self.element(item, group, scope, default, nested=False)
                after_string = False
            elif isinstance(item, Copy):
                for node in group.nodes(item.path) if group is not None else ():
                    if node.kind != "attribute":
                        self.copy(node, scope)
                    after_string = False
            else:
                for value in [item.value] if isinstance(item, Constant) else self.atoms(item, group):
                    self.put(escaped(" " * after_string + value))
                    after_string = True
        return after_string

    def atoms(self, item: Item, group: Group | None) -> Iterable[str]:
        return () if group is None else atoms(item, group, self.room)

    # -- copies

    def copy(self, node: Node, scope: Scope) -> None:
        """A node of the message with all below it, without recursion."""
        if node.kind != "element":
            self.leaf(node)
            return
        stack: list[tuple[Node, Scope] | tuple[str, int]] = [(node, scope)]
        while stack:
            one, around = stack.pop()
            if isinstance(one, str):
                self.finish(one, around)  # type: ignore[arg-type]
                continue
            assert not isinstance(around, int)
            if one.kind != "element":
                self.leaf(one)
                continue
            name = written_name(one)
            wanted = {prefix or "": uri for prefix, uri in one.element.nsmap.items() if uri}
            if "" not in wanted and (not one.ns or (one is not node and default_around(one))):
                # Else an element without a default of its own inherits that of the copy's new place.
                wanted[""] = ""
            attributes = [(attribute_name(a, wanted), a.text) for a in one.attributes]
            inner = self.start(name, wanted, attributes, around)
            stack.append((name, len(self.text)))
            stack += [(child, inner) for child in reversed(one.children)]

    def leaf(self, node: Node) -> None:
        if node.kind == "text":
            self.put(escaped(node.text))
        elif node.kind == "comment":
            self.put(f"<!--{node.text}-->")
        elif node.kind == "pi":
            self.put(f"<?{node.local} {node.text}?>" if node.text else f"<?{node.local}?>")


def default_around(node: Node) -> bool:
    """Whether the message has a default namespace around this element, which has none."""
    return node.parent is not None and node.parent.kind == "element" and bool(node.parent.element.nsmap.get(None))


def written_name(node: Node) -> str:
    prefix = node.element.prefix
    return f"{prefix}:{node.local}" if prefix else node.local


# lxml shows an attribute's namespace, but not which of several prefixes it was written with.
_WRITTEN = etree.XPath("name(@*[namespace-uri() = $ns and local-name() = $local])")


def attribute_name(node: Node, wanted: dict[str, str]) -> str:
    """An attribute's name, its prefix declared in ``wanted``: that of its source if it is free."""
    if not node.ns:
        return node.local
    if node.ns == XML_NAMESPACE:
        return f"xml:{node.local}"
    source = str(_WRITTEN(node.element, ns=node.ns, local=node.local)).partition(":")[0]
    prefix, n = source, 0
    while wanted.get(prefix, node.ns) != node.ns:
        n += 1
        prefix = f"{source}_{n}"
    wanted[prefix] = node.ns
    return f"{prefix}:{node.local}"
