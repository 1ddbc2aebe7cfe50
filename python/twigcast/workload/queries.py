"""Random path queries from a DTD, after YFilter's query generator: walks over the element graph.

As in `documents`, ``Random.random`` is the only source of chance, so a seed gives the same queries everywhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from twigcast.errors import OptionError
from twigcast.lang.lexer import NCNAME, NameRegex
from twigcast.schema.dtd import Dtd

COMPARISONS = ("<", "<=", ">", ">=")
# How many walks in a row may bring nothing new before we say that there is nothing new.
PATIENCE = 20_000


_PREFIX = NameRegex(NCNAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySettings:
    """The papers' knobs.

    ``depth``: most location steps of a query (D). ``descendant``, ``wildcard``: probability, per step, of ``//`` (W)
    and of ``*``. ``predicates``: value predicates per query; ``predicate_depth``: most steps between the element they
    stand on and the value (0: its own attribute or text). ``inequalities``: share of them that compare with < <= > >=.
    ``nested``: nested paths per query; ``nested_depth``: their most steps. ``skew``: Zipf parameter of the choice of a
    child, 0 is uniform. ``max_value``: values are drawn from 1 to it, as those of the documents are.
    """

    depth: int = 6
    descendant: float = 0.2
    wildcard: float = 0.2
    predicates: int = 0
    predicate_depth: int = 0
    inequalities: float = 0.0
    nested: int = 0
    nested_depth: int = 3
    distinct: bool = True
    skew: float = 0.0
    max_value: int = 20
    seed: int = 0

    def check(self) -> None:
        for name in ("descendant", "wildcard", "inequalities"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise OptionError("out-of-range", f"{name} is {value}; a probability lies between 0 and 1")
        for name, least, most in (
            ("depth", 1, 1_000),
            ("nested_depth", 1, 1_000),
            ("max_value", 1, 10**30),
            ("predicates", 0, 100),
            ("predicate_depth", 0, 1_000),
            ("nested", 0, 100),
            ("skew", 0, 10),
        ):
            value = getattr(self, name)
            if not least <= value <= most:  # not a number lies nowhere
                raise OptionError("out-of-range", f"{name} is {value}; it must be from {least} to {most}")


class QueryGenerator:
    """``prefix``, where given, is put before every element name: for vocabularies in a namespace."""

    def __init__(
        self, dtd: Dtd, settings: QuerySettings | None = None, *, root: str | None = None, prefix: str | None = None
    ) -> None:
        self._set = settings or QuerySettings()
        self._set.check()
        if prefix is not None and not _PREFIX.fullmatch(prefix):
            hint = "a prefix is a name without ':'"
            raise OptionError("bad-prefix", f"{prefix!r} is not a namespace prefix", hint=hint)
        self._root = dtd.check_root(root)
        self._elements = dtd.elements
        self._prefix = f"{prefix}:" if prefix else ""
        self._children = {e.name: tuple(c for c in e.children if c in dtd.elements) for e in dtd.elements.values()}
        self._weights = {n: zipf(len(c), self._set.skew) for n, c in self._children.items()}
        self._chance = Random(f"queries/{self._set.seed}").random

    def queries(self, count: int) -> Iterator[str]:
        """``count`` queries; an `OptionError` where the settings do not give that many distinct ones."""
        self._chance = Random(f"queries/{self._set.seed}").random
        seen: set[str] = set()
        made = idle = 0
        while made < count:
            # Short paths are soon all taken: after a repeat, go for a long one.
            query = self._query(long=idle > 0)
            if query is None or (self._set.distinct and query in seen):
                idle += 1
                if idle > PATIENCE:
                    raise OptionError(
                        "exhausted",
                        f"found {made} {'distinct ' if self._set.distinct else ''}queries of the {count} asked for",
                        hint="allow more depth, more // and *, a larger max value, or repeated queries",
                    )
                continue
            idle = 0
            if self._set.distinct:
                seen.add(query)
            made += 1
            yield query

    def _query(self, *, long: bool) -> str | None:
        """One walk from the root; None where the walk has no place for the predicates and nested paths asked for."""
        settings, chance = self._set, self._chance
        length = settings.depth if long else 1 + int(chance() * settings.depth)
        steps = self._walk(self._root, length, include_start=True)
        texts = [axis + test for axis, test, _ in steps]
        if settings.nested:
            places = [i for i, (_, _, name) in enumerate(steps) if self._children[name]]
            if not places:
                return None
            for text, i in sorted(self._nested(steps, places) for _ in range(settings.nested)):
                texts[i] += text
        if settings.predicates:
            tests = self._predicates(steps)
            if tests is None:
                return None
            for text, i in sorted(tests):
                texts[i] += text
        return "".join(texts)

    def _walk(self, start: str, length: int, *, include_start: bool) -> list[tuple[str, str, str]]:
        """At most ``length`` steps (axis, name test, element): from ``start`` itself, or from its children."""
        chance, settings = self._chance, self._set
        descendant, wildcard = settings.descendant, settings.wildcard
        name: str | None = start if include_start else self._child(start)
        steps: list[tuple[str, str, str]] = []
        while name is not None and len(steps) < length:
            axis = "/"
            if descendant and chance() < descendant:
                axis = "//"
                # What // stands for: often nothing, often some levels of the document.
                while chance() < 0.5 and (below := self._child(name)) is not None:
                    name = below
            starred = wildcard and chance() < wildcard
            steps.append((axis, "*" if starred else self._prefix + name, name))
            name = self._child(name)
        return steps

    def _child(self, name: str) -> str | None:
        children = self._children[name]
        if not children:
            return None
        weights = self._weights[name]
        if weights is None:
            return children[int(self._chance() * len(children))]
        return children[bisect_right(weights, self._chance() * weights[-1], 0, len(children) - 1)]

    def _nested(self, steps: Sequence[tuple[str, str, str]], places: list[int]) -> tuple[str, int]:
        at = places[int(self._chance() * len(places))]
        length = 1 + int(self._chance() * self._set.nested_depth)
        return f"[{relative(self._walk(steps[at][2], length, include_start=False))}]", at

    def _predicates(self, steps: Sequence[tuple[str, str, str]]) -> list[tuple[str, int]] | None:
        found: list[tuple[str, int]] = []
        for _ in range(self._set.predicates):
            for _ in range(4):
                at = int(self._chance() * len(steps))
                predicate = self._predicate(steps[at][2])
                if predicate is not None and (predicate, at) not in found:
                    found.append((predicate, at))
                    break
            else:
                return None
        return found

    def _predicate(self, name: str) -> str | None:
        below = self._walk(name, int(self._chance() * (self._set.predicate_depth + 1)), include_start=False)
        element = self._elements[below[-1][2] if below else name]
        choices = len(element.attributes) + element.has_text
        if not choices:
            return None
        pick = int(self._chance() * choices)
        path = relative(below)
        if pick == len(element.attributes):
            return f"[{path or 'text()'}{self._comparison()}]"
        attribute = element.attributes[pick]
        path += "/@" if path else "@"
        if attribute.type in ("enumeration", "notation"):
            return f'[{path}{attribute.name}="{attribute.values[int(self._chance() * len(attribute.values))]}"]'
        if attribute.default == "fixed" or attribute.type in ("id", "idref", "idrefs"):
            return f"[{path}{attribute.name}]"
        return f"[{path}{attribute.name}{self._comparison()}]"

    def _comparison(self) -> str:
        value = int(self._chance() * self._set.max_value) + 1
        if self._set.inequalities and self._chance() < self._set.inequalities:
            return f"{COMPARISONS[int(self._chance() * len(COMPARISONS))]}{value}"
        return f'="{value}"'


def relative(steps: Sequence[tuple[str, str, str]]) -> str:
    """Return steps as a path inside a predicate, where a leading ``//`` would start at the document (SEMANTICS 1)."""
    text = "".join(axis + test for axis, test, _ in steps)
    return "." + text if text.startswith("//") else text.removeprefix("/")


def zipf(n: int, skew: float) -> list[float] | None:
    """Cumulative weights 1/rank^skew; None where all are equal."""
    return list(accumulate(1 / rank**skew for rank in range(1, n + 1))) if skew and n else None
