"""Groups -> bytes: the new message of a transform whose groups a plan has found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from twigcast.ir.transform import Content, Copy, Element, Function, Groups, Item, OrderKey, Path, Transform
from twigcast.papers.plans import factory as templates
from twigcast.papers.plans.factory import Room, TooLong, Writer, first_of, number_of
from twigcast.papers.plans.nodes import Node
from twigcast.transform.encode import Scope


@dataclass(slots=True)
class Group(templates.Group):
    """One binding and its lists: the nodes of each return path, in document order."""

    node: Node
    lists: dict[Path, list[Node]] = field(default_factory=dict)

    def nodes(self, path: Path) -> list[Node]:
        return [self.node] if path.is_self else self.lists[path]


def render(
    transform: Transform,
    groups: Sequence[Group],
    *,
    deliver_empty: bool = False,
    most: int | None = None,
) -> bytes | None:
    """The new message; None where no binding survived (SEMANTICS 15), unless ``deliver_empty``.

    TooLong if it has more than ``most`` bytes."""
    if not groups and not deliver_empty:
        return None
    room = Room(most)
    out = _Writer(transform.result, in_order(transform.order, groups, room), room)
    out.element(transform.outer, None, {}, "", nested=False)
    return out.made()


class _Writer(Writer):
    """Writes a transform's template, with what it makes of all groups."""

    def __init__(self, result: Sequence[Item | Element], groups: list[Group], room: Room) -> None:
        super().__init__(room)
        self.result = result
        self.groups = groups

    def content(self, part: Content, group: templates.Group | None, scope: Scope, default: str) -> None:
        if not isinstance(part, Groups):
            super().content(part, group, scope, default)
            return
        # In XQuery one sequence: strings of neighbouring groups are set apart by a space too.
        after_string = False
        for one in self.groups:
            after_string = self.sequence(self.result, one, scope, default, after_string)


def in_order(keys: Sequence[OrderKey], groups: Sequence[Group], room: Room) -> list[Group]:
    """Return the groups sorted by the order clause; equal ones stay in document order."""
    found = list(groups)
    for key in reversed(keys):
        values, size = [], 0
        for group in found:
            values.append(_sort_key(key, group, room))
            size += len(values[-1][1]) if isinstance(values[-1][1], str) else 8
            if size > room.most:
                raise TooLong
        places = sorted(range(len(found)), key=values.__getitem__, reverse=key.descending)
        found = [found[place] for place in places]
    return found


def _sort_key(key: OrderKey, group: Group, room: Room) -> tuple[int, float | str]:
    """Return what is compared. Empty is least or greatest; NaN comes next to it (XQuery 3.12.8)."""
    value = key.value
    if key.numeric:
        assert isinstance(value, Function)
        number = number_of(value, group, room)
        if number is None:
            return (3 if key.empty_greatest else 0), 0.0
        if math.isnan(number):
            return (2 if key.empty_greatest else 0.5), 0.0  # type: ignore[return-value]
        return 1, number
    if isinstance(value, Copy) and not group.nodes(value.path):
        return (3 if key.empty_greatest else 0), ""
    return 1, first_of(value, group, room)
