"""Deliveries that wait: for their digest, or because they were put back. They leave in releases.

A release is a numbered set of held deliveries. It is fixed, durably, before a sink sees it, and deleted when the sink
has taken it; so after a crash the sink gets the same one again, as a batch of the stream ``_held``, and its usual
protection against repeated batches does the rest.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import groupby
from xml.sax.saxutils import quoteattr

from twigcast import _kernel
from twigcast.delivery.log import Piece
from twigcast.delivery.outbox import Outbox
from twigcast.delivery.single import Waiting, piece_of
from twigcast.delivery.sinks.base import Batch
from twigcast.limits import READ_BEFORE

STREAM = "_held"
RELEASE_BYTES = 32 << 20
"""Bytes of a release, roughly; what is due beyond goes with the next one."""
DIGEST_BYTES = 16 << 20
_LIMITS = READ_BEFORE.as_dict()


def release(outbox: Outbox, sink: str, digest_count: int, now: float) -> int | None:
    """Return the number of the release to deliver now: an unfinished one, or a new one; None if nothing is due."""
    with outbox.database.transaction() as db:
        query = "SELECT min(release) FROM held WHERE sink = ? AND release IS NOT NULL"
        unfinished = db.execute(query, (sink,)).fetchone()[0]
        if unfinished is not None:
            return int(unfinished)
        due = db.execute(
            "SELECT subscription, alone FROM held WHERE sink = ? AND release IS NULL"
            " GROUP BY subscription, alone HAVING min(due) <= ? OR count(*) >= ?",
            (sink, now, digest_count),
        ).fetchall()
        if not due:
            return None
        key = f"release/{sink}"
        last = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        number = 0 if last is None else int(last[0]) + 1
        db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, str(number)))
        size = 0
        for subscription, alone in due:
            rows = db.execute(
                "SELECT held.id, length(content) FROM held JOIN bodies ON bodies.id = body"
                " WHERE sink = ? AND release IS NULL AND subscription = ? AND alone = ? ORDER BY held.id",
                (sink, subscription, alone),
            ).fetchall()
            for id, length in rows:
                if size and size + length > RELEASE_BYTES:
                    return number
                size += length
                db.execute("UPDATE held SET release = ?, released = ? WHERE id = ?", (number, now, id))
        return number


def batch_of(outbox: Outbox, sink: str, number: int, digest_count: int) -> Batch:
    """Return a release as a batch, which sinks take."""
    query = "SELECT released FROM held WHERE sink = ? AND release = ?"
    released = outbox.database.value(query, (sink, number)) or time.time()

    def pieces() -> Iterator[Piece]:
        going = outbox.of_release(sink, number)
        waiting = [single for single, alone in going if alone]
        held = [single for single, alone in going if not alone]
        for _, group in groupby(held, key=lambda single: single.subscription):
            waiting += _digests(list(group), digest_count)
        if waiting:
            yield piece_of(waiting)

    return Batch(STREAM, number, released, pieces)


def _digests(waiting: list[Waiting], most: int) -> Iterator[Waiting]:
    """Yield the deliveries of one subscription as messages of bounded size and count."""
    start, size = 0, 0
    for place, single in enumerate(waiting):
        if place > start and (place - start >= most or size + len(single.content) > DIGEST_BYTES):
            yield digest(waiting[start:place])
            start, size = place, 0
        size += len(single.content)
    yield digest(waiting[start:])


def digest(parts: list[Waiting]) -> Waiting:
    """One message that holds others. Its id is made of theirs."""
    hasher = blake2b(digest_size=20)
    for single in parts:
        hasher.update(single.delivery.encode() + b"\0")
    id = hasher.hexdigest()
    first, last = parts[0], max(parts, key=lambda single: single.time or 0)
    streams = {single.stream for single in parts}
    content = b"".join(
        [
            f"<digest subscription={quoteattr(first.subscription)} count='{len(parts)}'>\n".encode(),
            *(_entry(single) for single in parts),
            b"</digest>\n",
        ]
    )
    headers = {"twigcast-digest": str(len(parts))}
    stream = streams.pop() if len(streams) == 1 else STREAM
    return Waiting(
        first.id, id, stream, f"digest-{id}", last.time, headers, first.subscription, first.subscriber, content
    )


def _entry(single: Waiting) -> bytes:
    attributes = f"delivery={quoteattr(single.delivery)} message={quoteattr(_xml_text(single.message))}"
    attributes += f" stream={quoteattr(single.stream)}"
    if single.time is not None:
        moment = datetime.fromtimestamp(single.time / 1e6, UTC)
        attributes += f" time='{moment.strftime('%Y-%m-%dT%H:%M:%S.%fZ')}'"
    return f"<entry {attributes}>".encode() + _embedded(single.content) + b"</entry>\n"


def _embedded(content: bytes) -> bytes:
    """Return a message as it can stand in an element: no declaration, no document type, UTF-8."""
    root, _ = _kernel.elements(content, [0], _LIMITS)
    if root and root[0] is not None:
        return root[0]
    # Several nodes, or text.
    if _kernel.validate(b"<f>" + content + b"</f>", _LIMITS) is None:
        return content
    return b"<base64>" + base64.b64encode(content) + b"</base64>"


def _xml_text(text: str) -> str:
    return "".join(c if c >= " " else "\ufffd" for c in text)
