"""Saxon as the oracle for transforms: canonical XML of what it makes of a query and a document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import pytest

from canonical_xml import canonical
from twigcast.ir.transform import Transform
from twigcast.lang.flwr import to_xquery

saxonche = pytest.importorskip("saxonche", reason="the XQuery oracle is saxonche")

_PROCESSOR = saxonche.PySaxonProcessor(license=False)


class SaxonError(Exception):
    """The code is in the text: XPTY0004, XQDY0025, ..."""


def saxon(query: str | Transform, xml: bytes) -> bytes:
    """What Saxon answers, canonical; the empty outer element where no binding survives."""
    (answer,) = saxon_answers(query, [xml])
    if isinstance(answer, SaxonError):
        raise answer
    return answer


def saxon_answers(query: str | Transform, documents: Iterable[bytes]) -> Iterator[bytes | SaxonError]:
    """The same for many documents: the query is set up once."""
    text = to_xquery(query, sources=False, first=True) if isinstance(query, Transform) else query
    processor = _PROCESSOR.new_xquery_processor()
    processor.set_query_content(text)
    for xml in documents:
        processor.set_context(xdm_item=_parsed(xml))
        try:
            made = processor.run_query_to_string()
        except saxonche.PySaxonApiError as error:
            yield SaxonError(str(error))
            continue
        yield canonical(made.encode()) if made is not None else SaxonError(processor.error_message or "no result")


@lru_cache(256)
def _parsed(xml: bytes) -> Any:
    # saxonche takes text, so a message of any encoding goes through UTF-8
    return _PROCESSOR.parse_xml(xml_text=xml.decode())
