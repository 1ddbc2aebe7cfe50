"""How the budget of a message is shared between the subscriptions that want results of it (SEMANTICS 27).

Who wants most is cut first ("water-filling"): the share is the largest amount for which the budget suffices if nobody
gets more. Whoever wants no more than an equal part of the budget gets all of it, and in which order subscriptions came
does not matter. The number of results is shared first, then the bytes of the results that are left.

The kernel shares what it makes in the same way (``crates/kernel/src/output/share.rs``). What different parts of the
system have made of one message, each within the budget, is brought together by :func:`within_budget`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

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


class Sharing(Generic[Item]):
    """Gives a budget out while results are made, in memory that the budget bounds.

    ``size`` returns what an item has, ``cut`` takes from an item what is beyond a share. What an item might have had
    beyond the share does not matter for the shares of others: it need not be made.
    """

    def __init__(self, budget: int, size: Callable[[Item], int], cut: Callable[[Item, int], None]) -> None:
        self.share = budget
        self.items: list[Item] = []
        self._budget = budget
        self._size = size
        self._cut = cut
        self._beyond: set[int] = set()
        self._used = 0

    def add(self, item: Item, *, beyond: bool = False) -> None:
        """Add an item that has no more than the share; ``beyond`` if it could have had more than that."""
        if beyond:
            self._beyond.add(len(self.items))
        self.items.append(item)
        self._used += self._size(item)
        if self._used > self._budget + self._budget // 4:
            self._divide()

    def finish(self) -> list[Item]:
        """Return the items, which are within the budget now."""
        if self._used > self._budget:
            self._divide()
        return self.items

    def _divide(self) -> None:
        wanted = [self.share + 1 if at in self._beyond else self._size(item) for at, item in enumerate(self.items)]
        level = share(wanted, self._budget)
        if level is None:
            return
        self.share = min(level, self.share)
        for at, item in enumerate(self.items):
            if wanted[at] > self.share:
                self._beyond.add(at)
                self._cut(item, self.share)
        self._used = sum(map(self._size, self.items))


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
