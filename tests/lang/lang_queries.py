"""Random queries as text, dense in what is hard: predicates on predicates, positions, steps up, negations.

Hypothesis shrinks well but seldom combines three rare things; this generator does so all the time.
"""

from __future__ import annotations

import random

TESTS = ["a", "a", "b", "b", "c", "*", "*", "n:a", "n:*", "node()", "text()", "comment()"]
DOWN = ["child::", "", "", "", "descendant::", "descendant-or-self::", "self::"]
UP = ["parent::", "ancestor::", "ancestor-or-self::"]
BEYOND = ["following-sibling::", "preceding-sibling::", "following::", "preceding::"]
POSITIONS = ["1", "2", "last()", "position() = 2", "position() > 1", "position() != last()", "last() > 1", "last() = 2"]
POSITIONS += ["position() < last()", "last() - 1", "position() >= 2", "position() mod 2 = 1", "position() = count(*)"]
CONSTANTS = ["'1'", "'x'", "''", "1", "2", "0", "'2'", "' x '"]
OPS = ["=", "=", "!=", "<", ">", ">=", "<="]


def query(r: random.Random) -> str:
    """One expression; absolute or not, of any type."""
    kind = r.randrange(10)
    if kind < 5:
        return path(r, 3, top=True)
    if kind == 5:
        return f"{path(r, 2, top=True)} | {path(r, 2, top=True)}"
    if kind == 6:
        return f"({path(r, 2, top=True)})[{r.choice(POSITIONS)}]"
    return condition(r, 3, top=True)


def path(r: random.Random, depth: int, top: bool = False) -> str:
    text = r.choice(["/", "//", "//", "//"]) if top or r.random() < 0.08 else r.choice(["", "", "", ".//", "../"])
    steps = r.choice([1, 1, 2, 2, 3])
    for at in range(steps):
        if at:
            text += r.choice(["/", "/", "/", "//"])
        text += step(r, depth, last=at == steps - 1)
    return text


def step(r: random.Random, depth: int, last: bool) -> str:
    roll = r.random()
    if roll < 0.08:
        return r.choice(["..", "."])
    if last and roll < 0.2:
        return r.choice(["@a", "@b", "@*", "@n:a", "text()", "@a/.."])
    axis = r.choice(DOWN) if roll < 0.85 else r.choice(UP) if roll < 0.96 else r.choice(BEYOND)
    text = axis + r.choice(TESTS)
    while depth > 0 and r.random() < 0.45:
        text += f"[{r.choice(POSITIONS) if r.random() < 0.3 else condition(r, depth - 1)}]"
    return text


def condition(r: random.Random, depth: int, top: bool = False) -> str:
    kind = r.randrange(14) if depth > 0 else r.randrange(6)
    if kind < 4:
        return path(r, depth, top)
    if kind < 6:
        sides = [path(r, depth, top), r.choice(CONSTANTS)]
        return f" {r.choice(OPS)} ".join(sides if r.random() < 0.8 else sides[::-1])
    if kind == 6:
        return f"not({condition(r, depth - 1, top)})"
    if kind < 9:
        return f"({condition(r, depth - 1, top)} {r.choice(['and', 'or'])} {condition(r, depth - 1, top)})"
    if kind == 9:
        return f"count({path(r, depth, top)}) {r.choice(OPS)} {r.choice(['0', '1', '2', '1.5'])}"
    if kind == 10:
        argument = path(r, depth, top) if r.random() < 0.6 or top else "."
        return f"{r.choice(['contains', 'starts-with'])}({argument}, {r.choice(CONSTANTS)})"
    if kind == 11:
        function = r.choice(["string", "normalize-space", "string-length", "number"])
        return f"{function}({path(r, depth, top)}) {r.choice(OPS)} {r.choice(CONSTANTS)}"
    if kind == 12:
        return f"{path(r, depth, top)} {r.choice(OPS)} {path(r, depth, top)}"
    if top:
        return f"({path(r, depth, top)})[{r.choice(['1', '2', 'last()'])}] {r.choice(OPS)} {r.choice(CONSTANTS)}"
    positions = f"{r.choice(POSITIONS[3:6])} {r.choice(['or', 'and'])} {condition(r, depth - 1)}"
    return r.choice([positions, f"({positions})", "self::a", "self::node()", "local-name() = 'a'", "not(self::b)"])
