"""What no tree pattern decides: libxml2 has the last word, on messages that a necessary pattern let through."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from lxml import etree

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

    def _holds(self, number: int, tree: etree._ElementTree) -> bool:
        # Compiled when first asked: a snapshot may bring very many.
        test = self._checks.get(number)
        if test is None:
            test = self._checks[number] = check(self._sources[number])
        return bool(test(tree))

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
        row, tree = -1, parse(b"<none/>")
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
    return etree.XPath(f"boolean({residual.xpath})", namespaces=dict(residual.prefixes) or None, smart_strings=False)


class _Nothing(etree.Resolver):  # type: ignore[misc]
    """Nothing external is ever opened: it reads as empty."""

    def resolve(self, system_url: str, public_id: str, context: Any) -> Any:
        return self.resolve_empty(context)


def parse(xml: bytes | str) -> etree._ElementTree:
    """A message that our own reader has accepted, as libxml2 sees it."""
    data = xml.encode() if isinstance(xml, str) else xml
    # recover: what we accept is well-formed; libxml2 also objects to namespace names with spaces, and to relative ones
    parser = etree.XMLParser(attribute_defaults=True, no_network=True, huge_tree=True, recover=True)
    parser.resolvers.add(_Nothing())
    tree = etree.ElementTree(etree.fromstring(data, parser))
    # libxml2 2.14 counts text of the DOCTYPE's entities as text of the document
    tree.docinfo.clear()
    return tree
