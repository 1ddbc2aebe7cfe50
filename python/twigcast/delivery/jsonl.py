"""Deliveries as JSON Lines, column by column; only values that need rare escapes are looked at one by one.

{"delivery": …, "stream": …, "message": …, "subscription": …, "subscriber": …, "time": …, "headers": {…}, "content": …}

``content`` is text where it is UTF-8; otherwise it is base64, and ``"encoding": "base64"`` follows. Where messages
themselves are not wanted, lines of deliveries without a payload have no content.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.delivery.log import Piece
from twigcast.delivery.sinks.base import contents

BYTES_AT_ONCE = 16 << 20
"""Roughly how much text is made at one time: a body may be delivered many times."""

# What JSON cannot hold as it is, but for what _escaped replaces in one go.
_RARE = r"[\x00-\x08\x0b\x0c\x0e-\x1f]"
_COMMON = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))


def lines(piece: Piece, *, messages: bool = True) -> Iterator[tuple[pa.Array, pa.Array]]:
    """``(rows, text)``: the numbers of some deliveries of the piece, in order, and a line for each.

    Without ``messages`` the content is the payload, and there is none where the message itself is delivered.
    """
    if not len(piece.deliveries):
        return
    encoded = contents(piece) if messages else piece.deliveries.column("payload").dictionary_encode()
    bodies = pc.binary_join_element_wise(', "content": ', _content(encoded.dictionary), "}\n", "")
    sizes = pc.binary_length(bodies).cast(pa.int64()).take(encoded.indices).fill_null(0)
    heads = _heads(piece)
    for start, stop in _cuts(sizes):
        rows = pa.array(range(start, stop), pa.int64())
        body = bodies.take(encoded.indices.slice(start, stop - start)).fill_null("}\n")
        yield rows, pc.binary_join_element_wise(heads.slice(start, stop - start), body, "")


def joined(text: pa.Array) -> memoryview:
    """All lines as one piece of memory: that is how Arrow keeps them."""
    if not len(text):
        return memoryview(b"")
    offsets = memoryview(text.buffers()[1]).cast("i" if pa.types.is_string(text.type) else "q")
    return memoryview(text.buffers()[2])[offsets[text.offset] : offsets[text.offset + len(text)]]


def _heads(piece: Piece) -> pa.Array:
    messages = piece.messages
    times = pc.strftime(messages.column("time"), format="%Y-%m-%dT%H:%M:%SZ")
    of_message = pc.binary_join_element_wise(
        ', "stream": ', quoted(messages.column("stream")), ', "message": ', quoted(messages.column("message")),
        ', "time": ', quoted(times), ', "headers": ', _headers(messages.column("headers")), "",
    )  # fmt: skip
    columns = {name: quoted(piece.deliveries.column(name)) for name in ("delivery", "subscription", "subscriber")}
    return pc.binary_join_element_wise(
        '{"delivery": ', columns["delivery"], of_message.take(piece.rows),
        ', "subscription": ', columns["subscription"], ', "subscriber": ', columns["subscriber"], "",
    )  # fmt: skip


def quoted(values: pa.Array) -> pa.Array:
    """Each text as JSON."""
    if pc.any(pc.match_substring_regex(values, _RARE)).as_py():
        return pa.array([json.dumps(value, ensure_ascii=False) for value in values.to_pylist()], pa.string())
    text = pc.binary_join_element_wise('"', _escaped(values), '"', "")
    return pc.fill_null(text, "null") if values.null_count else text


def _escaped(values: pa.Array) -> pa.Array:
    for character, escape in _COMMON:
        if pc.any(pc.match_substring(values, character)).as_py():
            values = pc.replace_substring(values, character, escape)
    return values


def _content(bodies: pa.Array) -> pa.Array:
    try:
        return quoted(bodies.cast(pa.string()))
    except pa.ArrowInvalid:  # some are not UTF-8
        return pa.array([_one_content(body) for body in bodies.to_pylist()], pa.string())


def _one_content(body: bytes) -> str:
    try:
        return json.dumps(body.decode(), ensure_ascii=False)
    except UnicodeDecodeError:
        return f'"{base64.b64encode(body).decode()}", "encoding": "base64"'


def _headers(headers: pa.Array) -> pa.Array:
    if headers.null_count == len(headers):
        return pa.array(["{}"] * len(headers), pa.string())
    return pa.array([json.dumps(dict(each or ()), ensure_ascii=False) for each in headers.to_pylist()], pa.string())


def _cuts(sizes: pa.Array) -> Iterator[tuple[int, int]]:
    """Ranges of rows whose sizes add up to about ``BYTES_AT_ONCE``."""
    ends = pc.cumulative_sum(sizes)
    # The number of the cut that a row falls into; a cut begins where it changes.
    parts = pc.divide(pc.subtract(ends, sizes), BYTES_AT_ONCE)
    runs = pc.run_end_encode(parts).run_ends.to_pylist()
    start = 0
    for stop in runs:
        yield start, stop
        start = stop
