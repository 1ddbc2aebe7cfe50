"""How the budget of a message is shared between the subscriptions that want results of it (SEMANTICS 27).

Who wants most is cut first ("water-filling"): the share is the largest amount for which the budget suffices if nobody
gets more. Whoever wants no more than an equal part of the budget gets all of it, and in which order subscriptions came
does not matter. The number of results is shared first, then the bytes of the results that are left.

The kernel shares what it makes in the same way (``crates/kernel/src/output/share.rs``). What different parts of the
system have made of one message, each within the budget, is brought together by :func:`within_budget`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from twigcast.limits import Limits

RESULT_NODES = "limit-result-nodes"
RESULT_BYTES = "limit-result-bytes"
BUDGET_RESULTS = "budget-results"
BUDGET_BYTES = "budget-bytes"
REASONS = {
    RESULT_NODES: "the subscription would get more results than max_result_nodes",
    RESULT_BYTES: "the subscription would get more bytes than max_result_bytes",
    BUDGET_RESULTS: "all subscriptions together would get more results than max_message_results",
    BUDGET_BYTES: "all subscriptions together would get more bytes than max_message_result_bytes",
}
"""Why results of a message are missing."""

Result = tuple[list[int] | None, list[bytes] | None, bool, bytes | None, str | None]
"""The nodes, fragments or new message (the fourth) that a subscription gets, whether that is all, and why it is not."""

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


def share(sizes: Iterable[int], budget: int) -> int | None:
    """Return the largest share for which the budget suffices, or None if it suffices for all that is wanted.

    A size that is known to exceed an earlier, larger share may be given as any number above that share.
    """
    ordered = sorted(sizes)
    claimants = len(ordered)
    for size in ordered:
        if size > budget // claimants:
            return budget // claimants
        budget -= size
        claimants -= 1
    return None


def measure(result: Result) -> tuple[int, int]:
    """Return how many results there are, and how many bytes they have. The id of a node has none."""
    nodes, fragments, _, payload, _ = result
    if payload is not None:
        return 1, len(payload)
    if fragments is not None:
        return len(fragments), sum(map(len, fragments))
    return 0 if nodes is None else len(nodes), 0


def fitting(fragments: Sequence[bytes], size: int) -> int:
    """Return how many of the first fragments fit into so many bytes."""
    for count, fragment in enumerate(fragments):
        size -= len(fragment)
        if size < 0:
            return count
    return len(fragments)


def within_budget(found: list[tuple[Key, Result]], limits: Limits) -> list[tuple[Key, Result]]:
    """Return the results of one message cut to its budget. A subscription, by its key, may have several results."""
    measured = [measure(result) for _, result in found]
    results, size = sum(count for count, _ in measured), sum(size for _, size in measured)
    if results > limits.max_message_results:
        wanted: dict[Key, int] = {}
        for (key, result), (count, _) in zip(found, measured, strict=True):
            more = limits.max_message_results + 1 if result[4] == BUDGET_RESULTS else count
            wanted[key] = wanted.get(key, 0) + more
        found = _cut(found, share(wanted.values(), limits.max_message_results), _first_results)
        size = sum(measure(result)[1] for _, result in found)
    if size > limits.max_message_result_bytes:
        wanted = {}
        for key, result in found:
            more = limits.max_message_result_bytes + 1 if result[4] == BUDGET_BYTES else measure(result)[1]
            wanted[key] = wanted.get(key, 0) + more
        found = _cut(found, share(wanted.values(), limits.max_message_result_bytes), _first_bytes)
    return found


def _cut(
    found: list[tuple[Key, Result]], level: int | None, first: Callable[[Result, int], tuple[Result, int]]
) -> list[tuple[Key, Result]]:
    """Return the results with no more than a share for each key."""
    if level is None:
        return found
    left: dict[Key, int] = {}
    kept = []
    for key, result in found:
        had = left.get(key, level)
        result, used = first(result, had)
        # what comes after something that was left out is left out too
        left[key] = 0 if result[4] in (BUDGET_RESULTS, BUDGET_BYTES) else had - used
        kept.append((key, result))
    return kept


def _first_results(result: Result, most: int) -> tuple[Result, int]:
    count, _ = measure(result)
    if count <= most:
        return result, count
    nodes, fragments, _, _, _ = result
    few = None if nodes is None else nodes[:most]
    return (few, None if fragments is None else fragments[:most], False, None, BUDGET_RESULTS), most


def _first_bytes(result: Result, most: int) -> tuple[Result, int]:
    _, size = measure(result)
    if size <= most:
        return result, size
    _, fragments, _, _, _ = result
    few = None if fragments is None else fragments[: fitting(fragments, most)]
    return (None, few, False, None, BUDGET_BYTES), most
