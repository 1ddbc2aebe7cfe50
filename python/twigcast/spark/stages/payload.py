"""What a delivery carries where its subscription asks for parts of the message.

What a transform makes is the payload. One fragment is the payload as it is; several, or one that is no element, stand
in ``<results>``, each in a ``<result>``; node ids stand in ``<nodes>``, separated by spaces. ``complete="false"`` marks
results that are not all, and ``reason`` says why.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc


def payloads(matches: pa.Array) -> pa.Array:
    """Return for each match of ``Engine.select_batch`` what to deliver, null for the message itself."""
    nodes, fragments, complete, made, reasons = map(
        matches.field, ("nodes", "fragments", "complete", "payload", "reason")
    )
    # what a limit cut off as a whole has no payload either, and is not the message itself
    asked = pc.or_(pc.or_(nodes.is_valid(), fragments.is_valid()), pc.invert(complete))
    if not pc.any(asked).as_py():
        return made
    values: list[bytes | None] = made.to_pylist()
    for place in pc.indices_nonzero(asked).to_pylist():
        whole, reason = complete[place].as_py(), reasons[place].as_py()
        if fragments[place].is_valid or not nodes[place].is_valid:
            values[place] = of_fragments(fragments[place].as_py() or (), whole, reason)
        else:
            values[place] = of_nodes(nodes[place].as_py(), whole, reason)
    return pa.array(values, pa.binary())


def of_fragments(fragments: Sequence[bytes], complete: bool = True, reason: str | None = None) -> bytes:
    """Return the payload of a subscription that selects nodes as XML."""
    if len(fragments) == 1 and complete and fragments[0].startswith(b"<") and fragments[0][1:2] not in b"!?":
        return fragments[0]
    results = b"".join(b"<result>" + fragment + b"</result>" for fragment in fragments)
    return b"<results" + _mark(complete, reason) + b">" + results + b"</results>"


def of_nodes(nodes: Sequence[int], complete: bool = True, reason: str | None = None) -> bytes:
    """Return the payload of a subscription that selects the ids of nodes."""
    return b"<nodes" + _mark(complete, reason) + b">" + b" ".join(b"%d" % node for node in nodes) + b"</nodes>"


def _mark(complete: bool, reason: str | None) -> bytes:
    why = b"" if reason is None else b' reason="%b"' % reason.encode()
    return b"" if complete else b' complete="false"' + why
