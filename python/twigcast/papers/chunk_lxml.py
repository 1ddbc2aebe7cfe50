"""Chunking as the eXtract paper measures it: documents in memory, and libxml2 as the engine, one expression by one."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from twigcast.chunk.chunker import UNBOUNDED, Chunker
from twigcast.chunk.filter import ChunkEngine, Filter, Outcome
from twigcast.chunk.scheme import Chunk, Fragment, Scheme
from twigcast.errors import OptionError
from twigcast.lang.context import at_document
from twigcast.lang.printer import to_xpath
from twigcast.lang.xpath import parse
from twigcast.limits import Limits
from twigcast.schema import libxml2


class Lxml(ChunkEngine):
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


class LxmlFilter(Filter):
    """Evaluates fragments with libxml2."""

    def make(self, chunk: Chunk) -> ChunkEngine:
        """Return libxml2 with the expressions of a chunk."""
        return Lxml(chunk, self.limits)


ENGINES: dict[str, type[Filter]] = {"twigcast": Filter, "lxml": LxmlFilter}
"""What evaluates the fragments of a scheme."""


def fragments(
    scheme: Scheme, xml: bytes, *, batch_bytes: int | None = None, limits: Limits | None = None
) -> Iterator[Fragment]:
    """The fragments of a document that is in memory. Without ``batch_bytes`` each chunk has one at most."""
    chunker = Chunker(scheme, batch_bytes=batch_bytes, limits=limits, max_fragment=UNBOUNDED)
    yield from chunker.feed(xml)
    yield from chunker.finish()
    if chunker.error is not None:
        raise chunker.error
    if chunker.foreign is not None:
        path = "".join(f"/{local}" for _, local in chunker.foreign)
        hint = "use a scheme without a schema"
        raise OptionError(
            "not-of-schema", f"the document has {path or 'too many tag paths'}, not in the schema", hint=hint
        )
