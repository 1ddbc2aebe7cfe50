"""What no tree pattern decides: libxml2 has the last word, on messages that a necessary pattern let through."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from lxml import etree

from twigcast.errors import TwigcastError
from twigcast.pattern import Residual


class Residuals:
    """The residual subscriptions by number."""

    def __init__(self) -> None:
        self._checks: dict[int, etree.XPath] = {}
        self._sources: dict[int, Residual] = {}
        self._numbers: pa.Array | None = None

    def __len__(self) -> int:
        return len(self._sources)

    def items(self) -> Iterable[tuple[int, Residual]]:
        return self._sources.items()

    def add(self, number: int, residual: Residual) -> None:
        self._sources[number] = residual
        self._numbers = None

    def remove(self, number: int) -> None:
        if self._sources.pop(number, None) is not None:
            self._checks.pop(number, None)
            self._numbers = None

    def _holds(self, number: int, tree: Any) -> bool:
        # Compiled when first asked: a snapshot may bring very many.
        test = self._checks.get(number)
        if test is None:
            test = self._checks[number] = check(self._sources[number])
        try:
            return bool(test(tree))
        except etree.XPathError as error:
            raise _refused(self._sources[number], error) from error

    def keep(self, xml: bytes, numbers: list[int]) -> list[int]:
        """Without those that the message does not satisfy after all."""
        if not any(n in self._sources for n in numbers):
            return numbers
        tree = parse(xml)
        return [n for n in numbers if n not in self._sources or self._holds(n, tree)]

    def keep_lists(self, xml: pa.Array, matches: pa.ListArray) -> pa.ListArray:
        """The same for a column of messages and their lists of matches."""
        if self._numbers is None:
            self._numbers = pa.array(sorted(self._sources), pa.uint32())
        flat = matches.flatten()
        doubtful = pc.indices_nonzero(pc.is_in(flat, self._numbers))
        if not len(doubtful):
            return matches
        rows = pc.list_parent_indices(matches).take(doubtful).to_pylist()
        keep = bytearray(b"\1") * len(flat)
        row, tree = -1, None
        for at, of, number in zip(doubtful.to_pylist(), rows, flat.take(doubtful).to_pylist(), strict=True):
            if of != row:
                row, tree = of, parse(xml[of].as_py())
            keep[at] = self._holds(number, tree)
        kept = pa.array(list(keep), pa.int32())
        sums = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(kept)])
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
    """A message that our own reader has accepted, as libxml2 sees it: nothing external is opened."""
    data = xml.encode() if isinstance(xml, str) else xml
    parser = etree.XMLParser(resolve_entities="internal", no_network=True, load_dtd=False, huge_tree=True)
    return etree.ElementTree(etree.fromstring(data, parser))
