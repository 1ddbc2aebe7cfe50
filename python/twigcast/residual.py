"""What no tree pattern decides: libxml2 has the last word, on messages that a necessary pattern let through."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from lxml import etree

from twigcast import _kernel
from twigcast.errors import MessageError, TwigcastError
from twigcast.lang.cost import Size, cost
from twigcast.limits import Limits
from twigcast.pattern import Residual
from twigcast.selecting import Selecting, Tree

# Fragments of one column, so that Arrow's offsets suffice.
_MOST_BYTES = 1 << 30


class Residuals:
    """The residual subscriptions by number."""

    def __init__(self, named: Callable[[int], str]) -> None:
        self._named = named
        self._sources: dict[int, Residual] = {}
        self._selecting: dict[int, Selecting] = {}
        self._numbers: pa.Array | None = None

    def __len__(self) -> int:
        return len(self._sources)

    def items(self) -> Iterable[tuple[int, Residual]]:
        return self._sources.items()

    def add(self, number: int, residual: Residual, result: str = "match") -> None:
        self._sources[number] = residual
        self._numbers = None
        if result != "match":
            self.want(number, result)

    def want(self, number: int, result: str) -> bool:
        """What a residual subscription selects; False if the subscription is not residual."""
        residual = self._sources.get(number)
        if residual is not None:
            self._selecting[number] = Selecting(residual, fragments=result == "fragments")
        return residual is not None

    def remove(self, number: int) -> None:
        if self._sources.pop(number, None) is not None:
            self._selecting.pop(number, None)
            self._numbers = None

    def _holds(self, number: int, message: Message, limits: Limits) -> bool:
        residual = self._sources.get(number)
        if residual is None:
            return False  # removed meanwhile
        key = residual.xpath, residual.prefixes
        known = message.answers.get(key)
        if known is None:
            if not message.affords(residual, limits):
                text = f"libxml2 may take too long with the subscription {self._named(number)}, {residual.xpath}"
                raise MessageError("residual-too-costly", text, line=1, column=1, offset=0)
            try:
                known = message.answers[key] = bool(check(residual)(message.tree))
            except etree.XPathError as error:
                text = f"libxml2 cannot evaluate the subscription {self._named(number)}, {residual.xpath}: {error}"
                raise MessageError("residual-refused", text, line=1, column=1, offset=0) from error
        return known

    def _keeps(self, number: int, message: Message, limits: Limits, failed: list[tuple[int, MessageError]]) -> bool:
        """Whether a match stands; one that cannot be decided is among those that failed."""
        if number not in self._sources:
            return True
        try:
            return self._holds(number, message, limits)
        except MessageError as error:
            failed.append((number, error))
            return False

    def keep(self, xml: bytes, numbers: list[int], limits: Limits, failed: list[tuple[int, MessageError]]) -> list[int]:
        """Without those that the message does not satisfy after all; what cannot be decided goes to ``failed``."""
        if not any(n in self._sources for n in numbers):
            return numbers
        message = Message(xml)
        return [n for n in numbers if self._keeps(n, message, limits, failed)]

    def keep_lists(
        self, xml: pa.Array, matches: pa.ListArray, errors: pa.Array, limits: Limits
    ) -> tuple[pa.ListArray, pa.Array]:
        """The same for a column of messages, their lists of matches, and what is wrong with them."""
        flat = matches.flatten()
        wrong: list[int] = []
        failed: dict[int, MessageError] = {}
        for at, row, number, message in self._doubtful(xml, matches, flat):
            try:
                if not self._holds(number, message, limits):
                    wrong.append(at)
            except MessageError as error:
                wrong.append(at)
                failed.setdefault(row, error)
        return _without(wrong, matches, flat), _with_errors(errors, failed)

    def select(
        self, xml: bytes, found: list[_kernel.Selected], limits: Limits, failed: list[tuple[int, MessageError]]
    ) -> list[_kernel.Selected]:
        """As ``keep``, with what residual subscriptions select."""
        if not any(one[0] in self._sources for one in found):
            return found
        message = Message(xml)
        tree = Tree(message.tree)
        kept = [one for one in found if self._keeps(one[0], message, limits, failed)]
        selected = []
        for one in kept:
            selecting = self._selecting.get(one[0])
            selected.append(one if selecting is None else (one[0], *selecting.select(tree, limits)))
        return selected

    def select_lists(
        self, xml: pa.Array, matches: pa.ListArray, errors: pa.Array, limits: Limits
    ) -> tuple[pa.ListArray, pa.Array]:
        """The same for a column of messages, their lists of matches, and what is wrong with them."""
        flat = matches.flatten()
        wrong: list[int] = []
        failed: dict[int, MessageError] = {}
        places = array("q", range(len(flat)))
        selected: list[_kernel.Selected] = []
        room = _MOST_BYTES
        tree = None
        for at, row, number, message in self._doubtful(xml, matches, flat.field("subscription")):
            try:
                holds = self._holds(number, message, limits)
            except MessageError as error:
                failed.setdefault(row, error)
                holds = False
            if not holds:
                wrong.append(at)
            elif number in self._selecting:
                if tree is None or tree.tree is not message.tree:
                    tree = Tree(message.tree)
                nodes, fragments, complete = self._selecting[number].select(tree, limits, room)
                room -= sum(map(len, fragments or ()))
                places[at] = len(flat) + len(selected)
                selected.append((number, nodes, fragments, complete))
        if selected:
            names = [field.name for field in flat.type]
            more = pa.array([dict(zip(names, one, strict=True)) for one in selected], flat.type)
            flat = pa.concat_arrays([flat, more]).take(pa.array(places))
        return _without(wrong, matches, flat), _with_errors(errors, failed)

    def _doubtful(
        self, xml: pa.Array, matches: pa.ListArray, numbers: pa.Array
    ) -> Iterator[tuple[int, int, int, Message]]:
        """The matches that are not sure: place among all, row, number of the subscription, and the message."""
        if self._numbers is None:
            self._numbers = pa.array(sorted(self._sources), pa.uint32())
        doubtful = pc.indices_nonzero(pc.is_in(numbers, self._numbers))
        rows = pc.list_parent_indices(matches).take(doubtful).to_pylist()
        last, message = -1, Message(b"")
        for at, row, number in zip(doubtful.to_pylist(), rows, numbers.take(doubtful).to_pylist(), strict=True):
            if row != last:
                last, message = row, Message(xml[row].as_py())
            yield at, row, number, message


def _without(wrong: list[int], matches: pa.ListArray, flat: pa.Array) -> pa.ListArray:
    """Lists as long as ``matches`` of the values ``flat``, but for those at the places that are wrong."""
    keep = bytearray(b"\1") * len(flat)
    for at in wrong:
        keep[at] = 0
    kept = pa.array(array("b", bytes(keep)), pa.int8())
    sums = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(kept.cast(pa.int32()))])
    first = matches.offsets[0].as_py()
    offsets = sums.take(pc.subtract(matches.offsets, first))
    return pa.ListArray.from_arrays(offsets, flat.filter(pc.equal(kept, 1)), type=matches.type)


def _with_errors(errors: pa.Array, failed: dict[int, MessageError]) -> pa.Array:
    if not failed:
        return errors
    rows = errors.to_pylist()
    for row, e in failed.items():
        rows[row] = {"code": e.code, "text": e.text, "line": e.line, "column": e.column, "offset": e.offset}
    return pa.array(rows, errors.type)


class Message:
    """A message as libxml2 sees it, parsed when first asked, and what was found out about it."""

    def __init__(self, xml: bytes | str) -> None:
        self._xml = xml
        self.answers: dict[tuple[object, ...], bool] = {}
        """By text and prefixes: very many subscriptions may have the same."""

    @cached_property
    def tree(self) -> etree._ElementTree:
        return parse(self._xml)

    @cached_property
    def _nodes(self) -> int:
        return int(_COUNT(self.tree))

    @cached_property
    def _size(self) -> Size:
        """By a walk, where the number of nodes alone does not tell."""
        depth = deepest = widest = 0
        for event, element in etree.iterwalk(self.tree, events=("start", "end")):
            depth += 1 if event == "start" else -1
            deepest = max(deepest, depth)
            if event == "start":
                widest = max(widest, 2 * len(element) + 1 + len(element.attrib))  # text between children
        return Size(self._nodes, deepest + 1, widest)

    def affords(self, residual: Residual, limits: Limits) -> bool:
        most = limits.max_residual_cost
        worst = Size(self._nodes, min(self._nodes, limits.max_depth + 1), self._nodes)
        if cost(residual.xpath, residual.prefixes, worst) <= most:
            return True
        # a walk in Python is for messages where it costs less than what it may save
        return self._nodes <= most // 100 and cost(residual.xpath, residual.prefixes, self._size) <= most


_COUNT = etree.XPath("count(//node()) + count(//@*)")


@lru_cache(maxsize=10_000)
def _cached(xpath: str, prefixes: tuple[tuple[str, str], ...]) -> etree.XPath:
    return etree.XPath(f"boolean({xpath})", namespaces=dict(prefixes) or None, smart_strings=False)


def check(residual: Residual) -> etree.XPath:
    """The compiled test; the same text is compiled once, however many ask."""
    try:
        return _cached(residual.xpath, residual.prefixes)
    except (etree.XPathError, ValueError, TypeError) as error:
        raise _refused(residual, error) from error


def _refused(residual: Residual, error: Exception) -> TwigcastError:
    return TwigcastError("residual-refused", f"libxml2 cannot evaluate {residual.xpath}: {error}")


def parse(xml: bytes | str) -> etree._ElementTree:
    """A message that our own reader has accepted, as libxml2 sees it."""
    data = xml.encode() if isinstance(xml, str) else xml
    try:
        tree = _parse(data)
    except etree.XMLSyntaxError:  # such as for an entity that only a DTD which is not read may declare
        return _plain(data)
    dtd: Any = tree.docinfo.internalDTD
    if dtd is None:
        return with_doctype(tree)
    # With default attributes libxml2 opens the external subset; without any DTD it would not know what id() finds.
    is_internal = dtd.system_url is None and dtd.external_id is None
    if not is_internal:
        return _plain(data)
    tree = _parse(data, attribute_defaults=True)
    # libxml2 2.14 counts text of the DOCTYPE's entities as text of the document
    tree.docinfo.clear()
    return with_doctype(tree)


def with_doctype(tree: etree._ElementTree) -> etree._ElementTree:
    """An empty one, if there is none: libxml2 leaves a root that comes first out of what precedes a comment behind."""
    if tree.getroot().getnext() is not None:
        tree.docinfo.system_url = "none"
        tree.docinfo.system_url = None
    return tree


def _plain(data: bytes) -> etree._ElementTree:
    # what is left to recover from are rules that only libxml2 has, such as that the name of a namespace is a URI
    return with_doctype(_parse(_kernel.plain(data), recover=True))


def _parse(data: bytes, *, attribute_defaults: bool = False, recover: bool = False) -> etree._ElementTree:
    options: Any = {"load_dtd": False, "no_network": True, "huge_tree": True}
    options |= {"attribute_defaults": attribute_defaults, "recover": recover}
    parser = etree.XMLParser(**options, resolve_entities="internal")  # type: ignore[arg-type,unused-ignore]
    return etree.ElementTree(etree.fromstring(data, parser))
