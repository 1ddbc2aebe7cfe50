"""libxml2 as the engine of chunks, one expression after the other: how the eXtract paper measures chunking."""

from __future__ import annotations

from collections.abc import Callable

from lxml import etree

from twigcast.chunk.filter import ChunkEngine, Outcome, Twigcast
from twigcast.chunk.scheme import Chunk
from twigcast.lang.context import at_document
from twigcast.lang.printer import to_xpath
from twigcast.lang.xpath import parse
from twigcast.limits import Limits
from twigcast.schema import libxml2


class Lxml:
    """Evaluates the expressions of a chunk with libxml2; it says whether they hold, not what they select."""

    def __init__(self, chunk: Chunk, limits: Limits) -> None:
        self._limits = limits
        self._tests: list[tuple[int, etree.XPath]] = []
        for s in chunk.subscriptions:
            xpath, prefixes = to_xpath(
                at_document(parse(s.query, s.namespaces, s.default_namespace, dialect=s.dialect))
            )
            self._tests.append((int(s.id), etree.XPath(f"boolean({xpath})", namespaces=prefixes)))

    def outcomes(self, xml: bytes) -> list[Outcome]:
        """Return the expressions that hold."""
        tree = libxml2.read(xml, self._limits)
        return [Outcome(number) for number, holds in self._tests if holds(tree)]


ENGINES: dict[str, Callable[[Chunk, Limits], ChunkEngine]] = {"twigcast": Twigcast, "lxml": Lxml}
"""What ``Filter`` makes the engine of a chunk by."""
