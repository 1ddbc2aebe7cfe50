"""Random documents and XPath expressions over every axis and function, for comparison with another engine."""

from __future__ import annotations

from random import Random

NAMES = ("a", "b", "c", "d")
PREFIXES = {"n": "urn:n", "m": "urn:m"}
AXES = (
    "child", "descendant", "descendant-or-self", "self", "attribute", "parent", "ancestor", "ancestor-or-self",
    "preceding", "preceding-sibling", "following", "following-sibling", "namespace",
)  # fmt: skip
STRINGS = ("''", "'1'", "'2'", "'x'", "'xy'", "' x '", "'-1'", "'urn:n'", "'a'", "'n'", "'i1'", "'i2 i1'", "'en'")
NUMBERS = ("0", "1", "2", "3", "-1", "0.5", "1.5", "1 div 0", "-1 div 0", "0 div 0")
TEXTS = ("", "1", "2", "x", "xy", " x ", "3", "-1", "\n", "<![CDATA[x<]]>", "&e;", "&#49;", "\u00e9x", "i1 i3")
ASIDES = ("<!--x-->", "<?p x?>", "<?q?>", "<!---->")
VALUES = ("", "1", "2", "x", " x ", "&e;", "a\tb")


def random_document(random: Random, size: int = 25) -> bytes:
    """Return a document with namespaces, IDs, languages, entities, mixed content, comments and instructions."""
    left = [random.randint(1, size)]
    ids = [0]

    def element(depth: int) -> str:
        left[0] -= 1
        name = random.choice((*NAMES, *NAMES, "n:a", "n:b", "m:c"))
        attributes = ' xmlns:n="urn:n" xmlns:m="urn:m"' if depth == 0 else ""
        if random.random() < 0.08:
            attributes += ' xmlns:o="urn:o"'
        if random.random() < 0.08:
            attributes += ' xmlns="urn:m"'
        if random.random() < 0.15:
            attributes += f' xml:lang="{random.choice(("en", "en-US", "de", ""))}"'
        if random.random() < 0.2:
            ids[0] += 1
            attributes += f' {random.choice(("id", "xml:id"))}="i{ids[0]}"'
        for attribute in ("a", "b", "n:a"):
            if random.random() < 0.2:
                attributes += f' {attribute}="{random.choice(VALUES)}"'
        parts: list[str] = []
        for _ in range(random.choice((0, 0, 1, 2, 3, 4))):
            if random.random() < 0.4:
                parts.append(random.choice(ASIDES + TEXTS))
            elif left[0] > 0 and depth < 6:
                parts.append(element(depth + 1))
        parts.append(random.choice(TEXTS))
        return f"<{name}{attributes}>{''.join(parts)}</{name}>"

    declarations = "".join(f"<!ATTLIST {name} id ID #IMPLIED>" for name in NAMES)
    head = f'<!DOCTYPE a [<!ENTITY e "x1">{declarations}]>' + random.choice(("", "", "<!--x-->", "<?p x?>"))
    return (head + element(0) + random.choice(("", "", "<!--x-->", "<?p?><!--1-->"))).encode()


class Expressions:
    """Makes expressions as text, each of a given type."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def any(self, depth: int) -> str:
        return self.random.choice((self.nodes, self.nodes, self.boolean, self.boolean, self.number, self.string))(depth)

    def test(self, axis: str) -> str:
        choose = self.random.choice
        if axis == "namespace":
            # A test with a prefix is left out: libxml2 compares it with the namespace that the node stands for.
            return choose(("*", "node()", "n", "m", "o", "xml", "text()"))
        kind = self.random.random()
        if kind < 0.5:
            return choose(NAMES if axis != "attribute" else ("a", "b", "id"))
        if kind < 0.6:
            return choose(("n:a", "n:b", "m:c", "m:a", "xml:lang"))
        if kind < 0.65:
            return choose(("n:*", "m:*"))
        return choose(("*", "*", "node()", "node()", "text()", "comment()", "processing-instruction()",
                       "processing-instruction('p')"))  # fmt: skip

    def step(self, depth: int) -> str:
        random = self.random
        if random.random() < 0.1:
            return random.choice((".", ".."))
        axis = random.choice((*AXES, "child", "child", "child", "descendant", "attribute"))
        predicates = ""
        while depth > 0 and random.random() < 0.35:
            predicates += f"[{self.predicate(depth - 1)}]"
        return f"{axis}::{self.test(axis)}{predicates}"

    def predicate(self, depth: int) -> str:
        random = self.random
        kind = random.random()
        if kind < 0.15:
            return random.choice(NUMBERS[:6])
        if kind < 0.35:
            op = random.choice(("=", "!=", "<", "<=", ">", ">="))
            left = random.choice(("position()", "last()", "position() mod 2", "last() - position()"))
            return f"{left} {op} {random.choice(('1', '2', 'last()', 'last() - 1', 'count(*)'))}"
        if kind < 0.45:
            return random.choice(("last()", "last() - 1", "count(*)", "position()", "string-length()"))
        return self.any(depth)

    def path(self, depth: int) -> str:
        random = self.random
        start = random.choice(("", "", "", "/", "//"))
        steps = [self.step(depth) for _ in range(random.randint(1, 3))]
        return start + random.choice(("/", "/", "//")).join(steps)

    def nodes(self, depth: int) -> str:
        random = self.random
        kind = random.random()
        if depth <= 0 or kind < 0.7:
            return self.path(depth)
        if kind < 0.8:
            return f"({self.path(depth - 1)} | {self.path(depth - 1)})"
        if kind < 0.9:
            return f"({self.nodes(depth - 1)})[{self.predicate(depth - 1)}]"
        if kind < 0.95:
            return f"({self.nodes(depth - 1)})/{self.step(depth - 1)}"
        return f"id({self.random.choice((self.string, self.nodes))(depth - 1)})"

    def string(self, depth: int) -> str:
        random = self.random
        if depth <= 0 or random.random() < 0.25:
            return random.choice(STRINGS)
        one, number = (lambda: self.any(depth - 1)), (lambda: self.number(depth - 1))
        name = random.choice((
            "local-name", "namespace-uri", "name", "string", "concat", "substring-before", "substring-after",
            "substring", "substring3", "normalize-space", "translate", "none",
        ))  # fmt: skip
        match name:
            case "local-name" | "namespace-uri" | "name":
                return f"{name}({self.nodes(depth - 1)})"
            case "string" | "normalize-space":
                return f"{name}({one()})"
            case "concat" | "substring-before" | "substring-after":
                return f"{name}({one()}, {one()})"
            case "substring":
                return f"substring({one()}, {number()})"
            case "substring3":
                return f"substring({one()}, {number()}, {number()})"
            case "translate":
                return f"translate({one()}, {one()}, {one()})"
        return random.choice(("string()", "name()", "local-name()", "namespace-uri()", "normalize-space()"))

    def number(self, depth: int) -> str:
        random = self.random
        if depth <= 0 or random.random() < 0.25:
            return f"({random.choice(NUMBERS)})"
        one = lambda: self.any(depth - 1)  # noqa: E731
        match random.randint(0, 9):
            case 0 | 1:
                return f"count({self.nodes(depth - 1)})"
            case 2:
                return f"sum({self.nodes(depth - 1)})"
            case 3:
                return f"string-length({one()})"
            case 4:
                return f"number({one()})"
            case 5:
                return f"{random.choice(('floor', 'ceiling', 'round'))}({one()})"
            case 6:
                op = random.choice(("+", "-", "*", "div", "mod"))
                return f"({self.number(depth - 1)} {op} {self.number(depth - 1)})"
            case 7:
                return f"(-{self.number(depth - 1)})"
        return random.choice(("position()", "last()", "string-length()", "number()"))

    def boolean(self, depth: int) -> str:
        random = self.random
        one = lambda: self.any(depth - 1)  # noqa: E731
        if depth <= 0:
            return random.choice(("true()", "false()", "lang('en')"))
        match random.randint(0, 9):
            case 0 | 1 | 2 | 3:
                op = random.choice(("=", "=", "!=", "<", "<=", ">", ">="))
                return f"({one()} {op} {one()})"
            case 4:
                return f"({self.nodes(depth - 1)} = {self.nodes(depth - 1)})"
            case 5:
                return f"not({one()})"
            case 6:
                return f"({one()} {random.choice(('and', 'or'))} {one()})"
            case 7:
                return f"boolean({one()})"
            case 8:
                return f"{random.choice(('contains', 'starts-with'))}({one()}, {one()})"
        return f"lang({random.choice(STRINGS)})"
