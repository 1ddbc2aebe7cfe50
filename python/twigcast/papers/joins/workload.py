"""The workloads of the join experiments (joins §6): random queries over two- and three-level messages, and feeds.

A query of k value joins picks k leaves for each of its blocks and compares them pair by pair; k follows a Zipf
distribution, so that small ones are common. Queries come as text and, quicker than by parsing, as correlations.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from twigcast.errors import OptionError
from twigcast.ir.correlation import FOLLOWED, Block, Correlation, JoinPredicate, Link, Ref, Variable
from twigcast.ir.pattern import Compare, Const, Node, Step, StringValue, Twig
from twigcast.ir.transform import Path

FEED_LEAVES = ("item_url", "channel_url", "title", "timestamp", "description")
CHANNELS = 418
STREAM = "S"

Leaf = tuple[str, ...]
"""The way from the root to a leaf."""


@dataclass(frozen=True, slots=True)
class JoinSchema:
    """Messages of one root and a fixed set of leaves."""

    root: str
    leaves: tuple[Leaf, ...]

    def message(self, values: Sequence[str]) -> bytes:
        """With these values in its leaves, in order."""
        text, open_names = [f"<{self.root}>"], list[str]()
        for leaf, value in zip(self.leaves, values, strict=True):
            above = list(leaf[:-1])
            if above != open_names:
                text += [f"</{name}>" for name in reversed(open_names)]
                text += [f"<{name}>" for name in above]
                open_names = above
            text.append(f"<{leaf[-1]}>{_escaped(value)}</{leaf[-1]}>")
        text += [f"</{name}>" for name in reversed(open_names)]
        return ("".join(text) + f"</{self.root}>").encode()


def two_level(leaves: int = 6) -> JoinSchema:
    """All leaves are children of the root, as in a feed's items."""
    return JoinSchema("item", tuple((f"leaf{at}",) for at in range(1, leaves + 1)))


def three_level(fan: int = 4) -> JoinSchema:
    return JoinSchema("item", tuple((f"part{i}", f"leaf{j}") for i in range(1, fan + 1) for j in range(1, fan + 1)))


def feed() -> JoinSchema:
    """The items of the paper's feeds."""
    return JoinSchema("item", tuple((name,) for name in FEED_LEAVES))


@dataclass(frozen=True, slots=True)
class JoinQuery:
    """``pairs`` are the numbers of the leaves compared, left and right; ``only`` are values that the leaf
    ``channel_url`` has to have, left and right."""

    schema: JoinSchema
    pairs: tuple[tuple[int, int], ...]
    window: int | None = None
    only: tuple[str, str] | None = None

    @property
    def text(self) -> str:
        left = self._block("v", [one for one, _ in self.pairs], self.only[0] if self.only else None)
        right = self._block("w", [other for _, other in self.pairs], self.only[1] if self.only else None)
        compared = " AND ".join(f"v{at} = w{at}" for at in range(1, len(self.pairs) + 1))
        window = "INF" if self.window is None else f"{self.window} us"
        return f"{left} FOLLOWED BY{{{compared}, {window}}} {right}"

    def _block(self, name: str, leaves: Sequence[int], only: str | None) -> str:
        text = f"{STREAM}/{self.schema.root}->{name}0" + (f'[channel_url = "{only}"]' if only else "")
        for above, members in _by_parent(self.schema, leaves).items():
            branches = [f"{self.schema.leaves[leaves[at]][-1]}->{name}{at + 1}" for at in members]
            inner = f"[{'/'.join(above)}" if above else ""
            text += inner + "".join(f"[{one}]" for one in branches) + ("]" if above else "")
        return text

    @property
    def correlation(self) -> Correlation:
        """What the text parses to."""
        left, of_left = _block(self.schema, "v", tuple(one for one, _ in self.pairs), self.only[0] if self.only else "")
        right, of_right = _block(
            self.schema, "w", tuple(other for _, other in self.pairs), self.only[1] if self.only else ""
        )
        predicates = tuple(
            JoinPredicate(Ref(0, of_left[at]), "=", Ref(1, of_right[at])) for at in range(len(self.pairs))
        )
        return Correlation((left, right), (Link(FOLLOWED, predicates, self.window),))


def join_queries(
    schema: JoinSchema, *, most: int | None = None, zipf: float = 0.8, seed: int = 1, channels: int = 0
) -> Iterator[JoinQuery]:
    """Without end. ``most`` bounds the value joins of a query. With ``channels``, each wants two of so many channels,
    which makes as many distinct queries as one likes."""
    chance = random.Random(seed)
    leaves = len(schema.leaves)
    most = leaves if most is None else most
    if not 1 <= most <= leaves:
        raise OptionError("bad-joins", f"a query of {leaves} leaves has 1 to {leaves} value joins, not {most}")
    sizes = list(range(1, most + 1))
    weights = [size**-zipf for size in sizes]
    while True:
        size = chance.choices(sizes, weights)[0]
        pairs = tuple(zip(chance.sample(range(leaves), size), chance.sample(range(leaves), size), strict=True))
        only = None
        if channels:
            only = channel(chance.randrange(channels)), channel(chance.randrange(channels))
        yield JoinQuery(schema, pairs, only=only)


def channel(number: int) -> str:
    return f"http://channel{number}.example/feed"


def feed_items(*, seed: int = 1, channels: int = CHANNELS, repeated: float = 0.05) -> Iterator[bytes]:
    """Items without end; a share of them repeats the title and description of an earlier one, from any channel."""
    chance = random.Random(seed)
    schema = feed()
    earlier: list[tuple[str, str]] = []
    number = 0
    while True:
        number += 1
        if earlier and chance.random() < repeated:
            title, description = chance.choice(earlier)
        else:
            title, description = f"Title {number}", f"What item {number} is about"
            if len(earlier) < 10_000:
                earlier.append((title, description))
            else:
                earlier[chance.randrange(10_000)] = title, description
        source = channel(chance.randrange(channels))
        yield schema.message([f"{source}/{number}", source, title, str(1_150_000_000 + number), description])


def _by_parent(schema: JoinSchema, leaves: Sequence[int]) -> dict[Leaf, list[int]]:
    """The places in ``leaves`` by the node above each, as they come."""
    found: dict[Leaf, list[int]] = {}
    for at, leaf in enumerate(leaves):
        found.setdefault(schema.leaves[leaf][:-1], []).append(at)
    return found


@lru_cache(200_000)
def _block(schema: JoinSchema, name: str, leaves: tuple[int, ...], only: str) -> tuple[Block, tuple[int, ...]]:
    """The block, and the numbers of its leaves' variables: its root is shown, and where leaves part is a variable."""
    filters = (Compare(StringValue(_twig("channel_url")), "=", Const(only)),) if only else ()
    root = Node(Step("child", "element", "", schema.root), filters)
    text = f"/{schema.root}" + (f'[channel_url = "{only}"]' if only else "")
    variables = [Variable(f"{name}0", None, Path(text, "element", Twig((root,))))]
    numbers: dict[int, int] = {}
    unnamed = 0
    for above, members in _by_parent(schema, leaves).items():
        parent, way = 0, above
        if above and len(members) > 1:
            unnamed += 1
            parent, way = len(variables), ()
            variables.append(Variable(f"_{unnamed}", 0, Path("/".join(above), "element", _twig(*above))))
        for at in members:
            leaf = schema.leaves[leaves[at]][-1]
            numbers[at] = len(variables)
            path = Path("/".join((*way, leaf)), "element", _twig(*way, leaf))
            variables.append(Variable(f"{name}{at + 1}", parent, path))
    return Block(STREAM, tuple(variables), 0), tuple(numbers[at] for at in range(len(leaves)))


def _twig(*names: str) -> Twig:
    return Twig(tuple(Node(Step("child", "element", "", name)) for name in names))


def _escaped(value: str) -> str:
    return value.replace("&", "&amp;").replace("<", "&lt;")
