"""What no tree pattern decides: libxml2 has the last word, on messages that a necessary pattern let through."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from lxml import etree

from twigcast import _kernel
from twigcast.errors import TwigcastError
from twigcast.limits import Limits
from twigcast.pattern import Residual
from twigcast.results import MATCH
from twigcast.selecting import Selecting, Tree

# Fragments of one column, so that Arrow's offsets suffice.
_MOST_BYTES = 1 << 30


class Residuals:
    """The residual subscriptions by number."""

    def __init__(self) -> None:
        self._checks: dict[int, tuple[Residual, etree.XPath]] = {}
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
            self._checks.pop(number, None)
            self._selecting.pop(number, None)
            self._numbers = None

    def _holds(self, number: int, tree: Any) -> bool:
        residual = self._sources.get(number)
        if residual is None:
            return False  # removed meanwhile
        # Compiled when first asked: a snapshot may bring very many. The number may have come to mean another query.
        known, test = self._checks.get(number, (None, None))
        if test is None or known is not residual:
            test = check(residual)
            self._checks[number] = residual, test
        try:
            return bool(test(tree))
        except etree.XPathError as error:
            raise _refused(residual, error) from error

    def keep(self, xml: bytes, numbers: list[int]) -> list[int]:
        """Without those that the message does not satisfy after all."""
        if not any(n in self._sources for n in numbers):
            return numbers
        tree = parse(xml)
        return [n for n in numbers if n not in self._sources or self._holds(n, tree)]

    def keep_lists(self, xml: pa.Array, matches: pa.ListArray) -> pa.ListArray:
        """The same for a column of messages and their lists of matches."""
        flat = matches.flatten()
        wrong = [at for at, number, tree in self._doubtful(xml, matches, flat) if not self._holds(number, tree)]
        return _without(wrong, matches, flat)

    def select(self, xml: bytes, found: list[_kernel.Selected], limits: Limits) -> list[_kernel.Selected]:
        """As ``keep``, with what residual subscriptions select."""
        if not any(one[0] in self._sources for one in found):
            return found
        message = parse(xml)
        tree = Tree(message)
        kept = [one for one in found if one[0] not in self._sources or self._holds(one[0], message)]
        selected = []
        for one in kept:
            selecting = self._selecting.get(one[0])
            selected.append(one if selecting is None else (one[0], *selecting.select(tree, limits)))
        return selected

    def select_lists(self, xml: pa.Array, matches: pa.ListArray, limits: Limits) -> pa.ListArray:
        """The same for a column of messages and their lists of matches."""
        flat = matches.flatten()
        wrong: list[int] = []
        places = array("q", range(len(flat)))
        selected: list[_kernel.Selected] = []
        room = _MOST_BYTES
        tree = None
        for at, number, message in self._doubtful(xml, matches, flat.field("subscription")):
            if not self._holds(number, message):
                wrong.append(at)
            elif number in self._selecting:
                if tree is None or tree.tree is not message:
                    tree = Tree(message)
                nodes, fragments, complete = self._selecting[number].select(tree, limits, room)
                room -= sum(map(len, fragments or ()))
                places[at] = len(flat) + len(selected)
                selected.append((number, nodes, fragments, complete))
        if selected:
            more = pa.array([dict(zip(MATCH.names, one, strict=True)) for one in selected], MATCH)
            flat = pa.concat_arrays([flat, more.cast(flat.type)]).take(pa.array(places))
        return _without(wrong, matches, flat)

    def _doubtful(self, xml: pa.Array, matches: pa.ListArray, numbers: pa.Array) -> Iterator[tuple[int, int, Any]]:
        """The matches that are not sure: place among all, number of the subscription, and the message."""
        if self._numbers is None:
            self._numbers = pa.array(sorted(self._sources), pa.uint32())
        doubtful = pc.indices_nonzero(pc.is_in(numbers, self._numbers))
        rows = pc.list_parent_indices(matches).take(doubtful).to_pylist()
        last, tree = -1, None
        for at, row, number in zip(doubtful.to_pylist(), rows, numbers.take(doubtful).to_pylist(), strict=True):
            if row != last:
                last, tree = row, parse(xml[row].as_py())
            yield at, number, tree


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


def check(residual: Residual) -> etree.XPath:
    namespaces = dict(residual.prefixes) or None
    try:
        return etree.XPath(f"boolean({residual.xpath})", namespaces=namespaces, smart_strings=False)
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
        return tree
    # With default attributes libxml2 opens the external subset; without any DTD it would not know what id() finds.
    is_internal = dtd.system_url is None and dtd.external_id is None
    if not is_internal:
        return _plain(data)
    tree = _parse(data, attribute_defaults=True)
    # libxml2 2.14 counts text of the DOCTYPE's entities as text of the document
    tree.docinfo.clear()
    return tree


def _plain(data: bytes) -> etree._ElementTree:
    # what is left to recover from are rules that only libxml2 has, such as that the name of a namespace is a URI
    return _parse(_kernel.plain(data), recover=True)


def _parse(data: bytes, *, attribute_defaults: bool = False, recover: bool = False) -> etree._ElementTree:
    options: Any = {"load_dtd": False, "no_network": True, "huge_tree": True}
    options |= {"attribute_defaults": attribute_defaults, "recover": recover}
    parser = etree.XMLParser(**options, resolve_entities="internal")  # type: ignore[arg-type,unused-ignore]
    return etree.ElementTree(etree.fromstring(data, parser))
