"""Subscriptions as people leave them for a feed: most want something rare, and say so in few steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from random import Random

from lxml import etree

from twigcast.schema import libxml2

SAMPLE = 400
RARE = 0.05  # a name in fewer messages than this share is what subscribers look for
COMMON_INTEREST = 0.02  # the share of subscriptions that ask for something any message has

Path = tuple[str, ...]


def interests(sample: Iterable[bytes], prefixes: Mapping[str, str], seed: int) -> Iterator[str]:
    """Yield structural queries over the tag paths of ``sample`` without end; ``prefixes`` maps URI to prefix.

    Each keeps the rarest name of the tag path it was made from, and so matches no oftener than that name occurs.
    """
    paths: set[Path] = set()
    messages: Counter[str] = Counter()  # in how many messages a name occurs
    total = 0
    for data in sample:
        total += 1
        found = set(tag_paths(data, prefixes))
        paths |= found
        messages.update({name for path in found for name in path})

    def rarest(path: Path) -> int:
        return min(range(len(path)), key=lambda i: (messages[path[i]], -i))

    ordered = sorted(paths)
    rare = [path for path in ordered if messages[path[rarest(path)]] < RARE * total] or ordered
    common = [path for path in ordered if messages[path[rarest(path)]] >= RARE * total] or ordered
    chance = Random(f"interests/{seed}").random
    while True:
        pool = common if chance() < COMMON_INTEREST else rare
        path = pool[int(chance() * len(pool))]
        yield query(path, rarest(path), chance())


def query(path: Path, keep: int, style: float) -> str:
    """``path`` as someone would write it: in full, from the interesting step on, or with a gap or a ``*``."""
    if style < 0.3:
        return "/" + "/".join(path)
    if style < 0.7:
        start = max(0, keep - int(style * 10) % 3)
        return ("//" if start else "/") + "/".join(path[start:])
    inner = [i for i in range(1, len(path) - 1) if i != keep]
    if not inner:
        return "//" + "/".join(path[keep:])
    at = inner[int(style * 1000) % len(inner)]
    if style < 0.9:
        return "/" + "/".join(path[:at]) + "//" + "/".join(path[at + 1 :])
    return "/" + "/".join((*path[:at], "*", *path[at + 1 :]))


def tag_paths(data: bytes, prefixes: Mapping[str, str]) -> Iterator[Path]:
    """Every path of element names, and of an attribute name at the end, written as in a query."""

    def written(name: str) -> str:
        q = etree.QName(name)
        return f"{prefixes[q.namespace]}:{q.localname}" if q.namespace else q.localname

    stack: list[tuple[etree._Element, Path]] = [(etree.fromstring(data, libxml2.parser()), ())]
    while stack:
        node, above = stack.pop()
        path = (*above, written(str(node.tag)))
        yield path
        for name in node.attrib:
            yield (*path, "@" + written(str(name)))
        stack += [(child, path) for child in node]
