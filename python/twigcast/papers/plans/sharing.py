"""Sharing the budget of a message while plans make its results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from twigcast.engine.shares import share

Item = TypeVar("Item")


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
