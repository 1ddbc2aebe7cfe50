"""Queries beyond tree patterns: libxml2 has the last word on messages that our reader accepts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from twigcast import Engine


@pytest.mark.parametrize(
    "uri", ["uri:this is a test", "urn:a b", "relative", "http://[", "%", "urn:\u00e9", "a:b|c"], ids=repr
)
def test_namespace_names_need_not_be_uris(uri: str) -> None:
    """Namespaces in XML does not make that an error; libxml2 objects, in the middle of a batch."""
    message = f'<r xmlns:p="{uri}"><p:a/><p:b/></r>'.encode()
    engine = Engine(namespaces={"q": uri})
    engine.add("/r/q:b[preceding::q:a]", id="yes")
    engine.add("/r/q:b[preceding::q:c]", id="no")
    engine.add("//q:a[following-sibling::*]", id="also")
    assert engine.match(message) == ["yes", "also"]
    batch = engine.match_batch(pa.record_batch({"id": ["m"], "xml": [message]}))
    assert engine.ids.take(pa.array(batch.column("matches")[0].as_py(), pa.uint32())).to_pylist() == ["yes", "also"]


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16", "ISO-8859-1", "US-ASCII", "windows-1252"])
def test_every_encoding_that_we_read(encoding: str) -> None:
    text = "e" if encoding == "US-ASCII" else "é"
    message = f'<?xml version="1.0" encoding="{encoding}"?><r><a>{text}</a><b/></r>'.encode(encoding)
    engine = Engine()
    engine.add(f"//b[preceding-sibling::a = '{text}']", id=1)
    assert engine.match(message) == [1]
