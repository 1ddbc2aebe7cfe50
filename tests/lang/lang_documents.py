"""Small random documents: recursive names, attributes, mixed content, namespaces, comments, CDATA, entities, PIs."""

from __future__ import annotations

import random

TEXTS = ["", "", "1", "2", "x", "xy", " x ", "1.0", "3", "-1", "\n", "<![CDATA[x]]>", "1<![CDATA[]]>", "&e;", "&#49;"]
SPLITTERS = ["<!--x-->", "<?p x?>", "<?q?>", "<!---->"]
VALUES = ["", "1", "2", "x", " x ", "3", "&e;"]
DECLARATION = '<!DOCTYPE a [<!ENTITY e "x1">]>'


def document(random_: random.Random) -> bytes:
    """One document; most have fewer than 40 nodes."""
    budget = [random_.randint(1, 25)]
    body = _element(random_, 0, budget, True)
    before = random_.choice(["", "", "<!--x-->", "<?p x?>"])
    after = random_.choice(["", "", "<!--x-->", "<?p?><!--1-->"])
    return (DECLARATION + before + body + after).encode()


def _element(random_: random.Random, depth: int, budget: list[int], root: bool = False) -> str:
    budget[0] -= 1
    name = random_.choice(["a", "a", "b", "b", "c", "d", "n:a", "n:b"])
    attributes = ' xmlns:n="urn:n"' if root else ""
    if random_.random() < 0.08 and not name.startswith("n:"):
        attributes += random_.choice([' xmlns="urn:n"', ' xmlns=""'])
    for attribute in ("a", "b", "n:a"):
        if random_.random() < 0.2:
            attributes += f' {attribute}="{random_.choice(VALUES)}"'
    parts: list[str] = []
    for _ in range(random_.choice([0, 0, 1, 2, 3, 4])):
        if random_.random() < 0.3:
            parts.append(random_.choice(SPLITTERS + TEXTS))
        elif budget[0] > 0 and depth < 6:
            parts.append(_element(random_, depth + 1, budget))
    parts.append(random_.choice(TEXTS))
    return f"<{name}{attributes}>{''.join(parts)}</{name}>"
