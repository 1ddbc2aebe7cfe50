"""Random schemas, documents and queries that look above and beside the chunks they would be in."""

from __future__ import annotations

from random import Random

from twigcast import Engine, Subscription
from twigcast.errors import TwigcastError
from twigcast.schema import Schema, dtd_schema, read_dtd
from twigcast.workload import DocumentGenerator

NAMESPACES = {"n": "urn:n"}
NAMES = ["a", "a", "b", "b", "c", "n:a"]
SPLITTERS = ["<!--x-->", "<?p x?>", "<?q?>"]
TEXTS = ["", "", "1", "2", "x", "xy", " x ", "\n", "<![CDATA[x]]>", "&#49;"]
VALUES = ["", "1", "2", "x", " x "]
OPERATORS = ["=", "!=", "<", ">"]
CONSTANTS = ["1", "2", '"x"', '""']
OF_CONTENT = ['. = "x"', 'text() = "1"', ". > 1", 'contains(., "x")', "string-length(.) > 1", 'starts-with(b, "x")']
POSITIONS = ["1", "2", "last()", "position() > 1", "position() = last()", "position() != 2"]
OUTWARD = ["../b", "../@a", "ancestor::a", "..//c", "../../b", "ancestor::a[@a]/b"]
RESIDUAL = ["following::a", "following-sibling::b", "preceding::*"]
DOWNWARD = ["a + b > 1", "a = b", "sum(b) > 1", ".//b = a/@a", "name(b) = name(a)", "translate(., 'x', '1') = 1"]


class Queries:
    """Draws queries over a vocabulary of ``names``. ``steady``: only what patterns decide, and no ``//text()``, so that
    the potpourri is hardly ever the whole document."""

    def __init__(self, random: Random, names: list[str], root: str | None = None, *, steady: bool = False) -> None:
        self.random = random
        self.names = names
        self.root = root
        self.steady = steady

    def query(self) -> str:
        kind = self.random.random()
        if kind < 0.75:
            return self.top()
        if kind < 0.82:
            return f"{self.top()} | {self.top()}"
        if kind < 0.92:
            return f"{self.top()} {self.random.choice(['and', 'or'])} {self.top()}"
        return f"not({self.top()})" if kind < 0.96 else f"count({self.top()}) > {self.random.choice('012')}"

    def top(self) -> str:
        random = self.random
        text = (
            "" if random.random() < 0.15 else f"/{self.root or '*'}{self.filters(2) if random.random() < 0.3 else ''}"
        )
        for _ in range(random.randint(1, 4)):
            text += ("//" if random.random() < 0.12 else "/") + self.step(2)
        ends = ["/@a", "/text()", "//@b", "/.."]
        if not self.steady:
            ends += ["//text()", "/node()", "//comment()"]
        return text + (random.choice(ends) if random.random() < 0.15 else "")

    def step(self, depth: int) -> str:
        name = "*" if self.random.random() < 0.1 else self.random.choice(self.names)
        return name + self.filters(depth)

    def filters(self, depth: int) -> str:
        text = ""
        while depth > 0 and self.random.random() < 0.35:
            text += f"[{self.predicate(depth - 1)}]"
        return text

    def path(self, depth: int) -> str:
        text = ".//" if self.random.random() < 0.15 else ""
        text += ("//" if self.random.random() < 0.1 else "/").join(
            self.step(depth) for _ in range(self.random.randint(1, 2))
        )
        return text + (self.random.choice(["/@a", "/text()", "//@b"]) if self.random.random() < 0.15 else "")

    def predicate(self, depth: int) -> str:
        random = self.random
        kind = random.random()
        if kind < 0.3:
            return self.path(depth)
        if kind < 0.42:
            return random.choice(["@a", "@b", '@a = "1"', "@b > 1", "@n:a"])
        if kind < 0.57:
            return f"{self.path(depth)} {random.choice(OPERATORS)} {random.choice(CONSTANTS)}"
        if kind < 0.64:
            return random.choice(OF_CONTENT)
        if kind < 0.72:
            return random.choice(POSITIONS)
        if kind < 0.79:
            return f"not({self.predicate(depth)})"
        if kind < 0.86:
            return f"{self.predicate(depth)} {random.choice(['and', 'or'])} {self.predicate(depth)}"
        if kind < 0.9:
            return f"count({self.path(depth)}) {random.choice(OPERATORS)} {random.choice('012')}"
        if kind < 0.94:
            return f"/{self.root or '*'}/{self.path(depth).lstrip('./')}"
        if kind < 0.97:
            return random.choice(DOWNWARD)
        return random.choice(OUTWARD if self.steady or kind < 0.985 else RESIDUAL)


def subscriptions(queries: Queries, count: int, *, results: bool = True) -> list[Subscription]:
    """Those of the queries that are well-typed."""
    known = Engine(namespaces=NAMESPACES)
    made: list[Subscription] = []
    while len(made) < count:
        result = queries.random.choice(["match", "match", "nodes", "fragments"]) if results else "match"
        one = Subscription(len(made), queries.query(), result=result)
        try:
            known.check(one)
        except TwigcastError:
            continue
        made.append(one)
    return made


def document(random: Random) -> bytes:
    """Recursive, with mixed content, comments, attributes and namespaces."""
    budget = [random.randint(5, 60)]

    def element(depth: int) -> str:
        budget[0] -= 1
        name = random.choice(NAMES) if depth else "a"
        attributes = "" if depth else ' xmlns:n="urn:n"'
        for attribute in ("a", "b", "n:a"):
            if random.random() < 0.25:
                attributes += f' {attribute}="{random.choice(VALUES)}"'
        parts = []
        for _ in range(random.randint(0, 5)):
            if random.random() < 0.25:
                parts.append(random.choice(SPLITTERS + TEXTS))
            elif budget[0] > 0 and depth < 5:
                parts.append(element(depth + 1))
        return f"<{name}{attributes}>{''.join(parts)}{random.choice(TEXTS)}</{name}>"

    return f"{'<!--x-->' if random.random() < 0.2 else ''}{element(0)}".encode()


def schema(random: Random) -> tuple[Schema, list[str], list[bytes]]:
    """A DTD, often recursive; its names; and documents that are valid."""
    names = ["r", *"abcdef"[: random.randint(2, 6)]]
    lines = []
    for at, name in enumerate(names):
        below = [one for one in names[1:] if random.random() < 0.4]
        if random.random() < 0.7:  # mostly downwards, so that it is not all loops
            below = [one for one in below if names.index(one) > at]
        if not at:
            below = below or names[1:2]
        mixed = bool(at) and (not below or random.random() < 0.4)
        content = " | ".join(["#PCDATA"] * mixed + below)
        lines.append(f"<!ELEMENT {name} ({content})*><!ATTLIST {name} a CDATA #IMPLIED b CDATA #IMPLIED>")
    text = "".join(lines).encode()
    made = DocumentGenerator(
        read_dtd(text), depth=6, max_repeats=3, max_value=2, max_elements=60, seed=random.randint(0, 10**6), root="r"
    )
    schema = dtd_schema(text, roots=("r",))
    return schema, names, [one for one in made.documents(6) if not schema.validate(one)]
