"""Messages that repeat an element, nest it in itself and recurse."""

from __future__ import annotations

from random import Random

from lxml import etree


def item(source: Random, depth: int) -> str:
    """Return an element whose parts come any number of times, with others of its kind in it."""
    n = source.randrange(40)
    parts = [f"<name>n{n}</name>"] * source.choice((0, 1, 1, 1, 2))
    parts += [f"<price>{source.randrange(500) / 10}</price>" for _ in range(source.choice((0, 1, 1, 2)))]
    parts.append(f"<number>{n}</number>")
    parts.append(f"<text>{' '.join(f'w{source.randrange(4)}' for _ in range(source.randrange(4)))}</text>")
    if depth and source.random() < 0.4:
        parts += [item(source, depth - 1) for _ in range(source.randrange(3))]
    source.shuffle(parts)
    return f'<item k="{source.randrange(4)}">{"".join(parts)}</item>'


def recursive(source: Random, depth: int) -> str:
    """Return elements nested in themselves, one at most on each level but for a few."""
    inner = (
        "".join(recursive(source, depth - 1) for _ in range(source.choice((1, 1, 1, 2)) if depth % 7 == 0 else 1))
        if depth
        else ""
    )
    b = f"<b>{source.randrange(4)}</b>" if source.random() < 0.5 else ""
    c = f"<c>{source.randrange(50)}</c>" if source.random() < 0.3 else ""
    return f'<a k="{source.randrange(4)}">{b}{inner}{c}</a>'


def catalogue(source: Random, items: int) -> bytes:
    """Return a message of so many items, and elements nested in themselves, as libxml2 writes it."""
    parts = [item(source, source.choice((0, 0, 1, 4))) for _ in range(items)]
    parts.insert(source.randrange(len(parts) + 1), recursive(source, source.choice((2, 30))))
    return etree.tostring(etree.fromstring(f"<cat>{''.join(parts)}</cat>"))
