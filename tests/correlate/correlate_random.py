"""Random XSCL queries and random streams for them: few names and few values, so that much joins."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

SECOND = 1_000_000
TAGS = ("a", "b", "c")
VALUES = ("", "1", "2", "10", "x")
STREAMS = ("S", "T")
Arrivals = list[tuple[int, str, int, bytes]]


@st.composite
def xml(draw: DrawFn, depth: int = 3) -> str:
    tag = draw(st.sampled_from(TAGS))
    attribute = draw(st.sampled_from(("", "", ' k="1"', ' k="2"')))
    if depth == 0 or draw(st.booleans()):
        return f"<{tag}{attribute}>{draw(st.sampled_from(VALUES))}</{tag}>"
    children = "".join(draw(st.lists(xml(depth=depth - 1), max_size=3)))
    return f"<{tag}{attribute}>{children}</{tag}>"


@st.composite
def arrivals(draw: DrawFn, most: int = 6) -> Arrivals:
    """Ties, and out of order."""
    times = draw(st.lists(st.integers(0, 6), min_size=2, max_size=most))
    return [
        (number, draw(st.sampled_from(("S", "S", "T"))), time * SECOND, draw(xml()).encode())
        for number, time in enumerate(times, 1)
    ]


class _Query:
    def __init__(self, draw: DrawFn) -> None:
        self.draw = draw
        self.names: list[list[str]] = []

    def pick(self, *choices: str) -> str:
        return self.draw(st.sampled_from(choices))

    def step(self, *, leaf: bool) -> str:
        test = self.pick("a", "b", "c", "*", *(("@k", "text()") if leaf else ()))
        return self.pick("/", "//") + test

    def named(self) -> str:
        name = f"v{sum(map(len, self.names))}"
        self.names[-1].append(name)
        return f"->{name}"

    def branch(self, depth: int) -> str:
        if depth == 0 or self.draw(st.booleans()):
            path = "." + self.step(leaf=True)
            return path + (self.pick("", " = '1'", " > 1") if self.draw(st.booleans()) else self.named())
        path = "." + self.step(leaf=False) + (self.named() if self.draw(st.booleans()) else "")
        path += "".join(f"[{self.branch(depth - 1)}]" for _ in range(self.draw(st.integers(0, 2))))
        if self.draw(st.booleans()):
            path += self.step(leaf=True) + self.named()
        return path

    def block(self) -> str:
        self.names.append([])
        if self.pick("path", "path", "path", "stream") == "stream":
            name = f"v{sum(map(len, self.names))}"
            self.names[-1].append(name)
            return f"{self.pick(*STREAMS)} AS ${name}"
        text = self.pick("S", "S", "T", "")
        for _ in range(self.draw(st.integers(1, 2))):
            text += self.step(leaf=False) + (self.named() if self.draw(st.booleans()) else "")
            text += "".join(f"[{self.branch(1)}]" for _ in range(self.draw(st.integers(0, 2))))
        if not self.names[-1]:
            text += self.named()
        return text

    def operand(self, block: int) -> str:
        name = self.pick(*self.names[block])
        return f"${name}" + self.pick("", "", "", "//a", "//@k", "/b[c]", "//*")

    def text(self) -> str:
        blocks = self.pick("two", "two", "two", "three", "one")
        parts = [self.block()]
        if blocks == "one":
            return f"SELECT {self.select()} FROM {parts[0]}"
        for number in range(1, 3 if blocks == "three" else 2):
            text = self.block()
            comparisons = []
            for _ in range(self.draw(st.integers(1, 3))):
                sides = [self.operand(self.draw(st.integers(0, number - 1))), self.operand(number)]
                if self.draw(st.booleans()):
                    sides.reverse()
                comparisons.append(f"{sides[0]} {self.pick('=', '=', '=', '=', '!=', '<', '>=')} {sides[1]}")
            window = self.pick("0", "1", "3", "INF", "2 s")
            link = self.pick("JOIN", "FOLLOWED BY")
            parts.append(f"{link}{{{' AND '.join(comparisons)}, {window}}} {text}")
        select = self.select()
        return (f"SELECT {select} FROM " if select else "") + " ".join(parts)

    def select(self) -> str:
        names = [name for block in self.names for name in block]
        one, other = self.pick(*names), self.pick(*names)
        if len(self.names) > 1 and self.draw(st.booleans()):
            return ""
        return self.pick("*", f"${one}, string(${other})", f'<r n="{{count(${one}//a)}}"><s>{{${other}/a}}</s></r>')


@st.composite
def queries(draw: DrawFn) -> str:
    return _Query(draw).text()
