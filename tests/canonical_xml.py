"""Canonical XML: two outputs are equal when this is (SEMANTICS 16)."""

from __future__ import annotations

from lxml import etree

from twigcast.schema import libxml2


def canonical(xml: bytes) -> bytes:
    """Return canonical XML, with comments."""
    made: bytes = etree.tostring(etree.fromstring(xml, libxml2.parser()), method="c14n", with_comments=True)
    return made
