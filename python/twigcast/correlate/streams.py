"""Derived streams: what correlations publish, others read.

They form no cycle, or a message would never end (SEMANTICS 24). They are none of the streams that messages come from:
a subscriber could forge messages of a publisher.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from twigcast.errors import QueryError
from twigcast.ir.correlation import Correlation


def check_streams(correlations: Mapping[str | int, Correlation], source: str | None = None) -> None:
    """Raise QueryError if what some correlation publishes comes back to it. ``source`` is the text of the last."""
    readers: dict[str, list[str | int]] = {}
    for id, one in correlations.items():
        for stream in one.streams:
            readers.setdefault(stream, []).append(id)
    done: set[str | int] = set()
    for start in correlations:
        cycle = _cycle(start, correlations, readers, done)
        if cycle:
            way = " -> ".join(f"{id} publishes {correlations[id].publish}" for id in cycle)
            raise QueryError(
                "stream-cycle",
                f"what {cycle[0]} publishes would come back to it: {way}, which {cycle[0]} reads",
                hint="publish under another name",
                source=source,
            )


def inadmissible(
    correlations: Mapping[str | int, Correlation], sources: Collection[str] = ()
) -> dict[str | int, QueryError]:
    """Return the correlations that must not run, each with the error.

    These are the ones that publish on a stream of ``sources``, and those that close a cycle. Of the correlations of a
    cycle the last one given is refused.
    """
    publishing = {id: one for id, one in correlations.items() if one.publish is not None}
    refused: dict[str | int, QueryError] = {}
    for id, one in list(publishing.items()):
        if one.publish in sources:
            text = f"PUBLISH {one.publish} names a stream that messages come from"
            refused[id] = QueryError("published-source", text, hint="publish under another name")
            del publishing[id]
    try:
        check_streams(publishing)
    except QueryError:
        kept: dict[str | int, Correlation] = {}
        for id, one in publishing.items():
            try:
                check_streams({**kept, id: one})
                kept[id] = one
            except QueryError as error:
                refused[id] = error
    return refused


def _cycle(
    start: str | int,
    correlations: Mapping[str | int, Correlation],
    readers: Mapping[str, Iterable[str | int]],
    done: set[str | int],
) -> list[str | int] | None:
    """Search depth first, without recursion, for a cycle. ``done`` has the correlations that are in none."""

    def after(id: str | int) -> list[str | int]:
        publish = correlations[id].publish
        return list(readers.get(publish, ())) if publish is not None else []

    if start in done:
        return None
    way, pending = [start], [after(start)]
    while way:
        if not pending[-1]:
            done.add(way.pop())
            pending.pop()
            continue
        follower = pending[-1].pop()
        if follower in way:
            return way[way.index(follower) :]
        if follower not in done:
            way.append(follower)
            pending.append(after(follower))
    return None
