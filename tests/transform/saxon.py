"""Saxon as the oracle for transforms: canonical XML of what it makes of a query and a document."""

from __future__ import annotations

import pytest

from twigcast.constructor import Transform
from twigcast.lang.flwr import to_xquery
from twigcast.transform.render import canonical

saxonche = pytest.importorskip("saxonche", reason="the XQuery oracle is saxonche")

_PROCESSOR = saxonche.PySaxonProcessor(license=False)


class SaxonError(Exception):
    """The code is in the text: XPTY0004, XQDY0025, ..."""


def saxon(query: str | Transform, xml: bytes) -> bytes:
    """What Saxon answers, canonical; the empty outer element where no binding survives."""
    text = to_xquery(query, sources=False, first=True) if isinstance(query, Transform) else query
    processor = _PROCESSOR.new_xquery_processor()
    # saxonche takes text, so a message of any encoding goes through UTF-8
    processor.set_context(xdm_item=_PROCESSOR.parse_xml(xml_text=xml.decode()))
    processor.set_query_content(text)
    try:
        made = processor.run_query_to_string()
    except saxonche.PySaxonApiError as error:
        raise SaxonError(str(error)) from error
    if made is None:
        raise SaxonError(processor.error_message or "no result")
    return canonical(made.encode())
