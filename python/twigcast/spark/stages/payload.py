"""What a delivery carries where its subscription asks for parts of the message.

What a transform makes is the payload. One fragment is the payload as it is; several, or one that is no element, stand
in ``<results>``, each in a ``<result>``; node ids stand in ``<nodes>``, separated by spaces. ``complete="false"`` marks
what a limit has cut off.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc


def payloads(matches: pa.Array) -> pa.Array:
    """For each match of ``Engine.select_batch``: what to deliver, null for the message itself."""
    nodes, fragments, complete, made = (matches.field(name) for name in ("nodes", "fragments", "complete", "payload"))
    # what a limit cut off as a whole has no payload either, and is not the message itself
    asked = pc.or_(pc.or_(nodes.is_valid(), fragments.is_valid()), pc.invert(complete))
    if not pc.any(asked).as_py():
        return made
    values: list[bytes | None] = made.to_pylist()
    for place in pc.indices_nonzero(asked).to_pylist():
        whole = complete[place].as_py()
        if fragments[place].is_valid or not nodes[place].is_valid:
            values[place] = of_fragments(fragments[place].as_py() or (), whole)
        else:
            values[place] = of_nodes(nodes[place].as_py(), whole)
    return pa.array(values, pa.binary())


def of_fragments(fragments: Sequence[bytes], complete: bool = True) -> bytes:
    if len(fragments) == 1 and complete and fragments[0].startswith(b"<") and fragments[0][1:2] not in b"!?":
        return fragments[0]
    results = b"".join(b"<result>" + fragment + b"</result>" for fragment in fragments)
    return b"<results" + _mark(complete) + b">" + results + b"</results>"


def of_nodes(nodes: Sequence[int], complete: bool = True) -> bytes:
    return b"<nodes" + _mark(complete) + b">" + b" ".join(b"%d" % node for node in nodes) + b"</nodes>"


def _mark(complete: bool) -> bytes:
    return b"" if complete else b' complete="false"'
