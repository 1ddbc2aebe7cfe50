"""Random transforms from a DTD, after the broker paper's query generator (broker §6.1, Table 1).

As in `queries`, ``Random.random`` is the only source of chance, so a seed gives the same queries everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from twigcast.errors import OptionError
from twigcast.schema.dtd import Dtd
from twigcast.workload.queries import PATIENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformSettings:
    """The paper's parameters; the count Q is asked for when generating.

    ``binding_depth``: D1, most steps of the binding path, which binds elements below the root. ``predicate_paths``: PP.
    ``return_paths``: RP. ``path_depth``: D2, most steps of predicate and return paths. ``descendant``: DSProb, the
    probability of ``//`` per step. ``max_value``: values are drawn from 1 to it, as those of the documents are.
    """

    binding_depth: int = 2
    predicate_paths: int = 1
    return_paths: int = 2
    path_depth: int = 2
    descendant: float = 0.2
    max_value: int = 10
    seed: int = 0

    def check(self) -> None:
        if not 0 <= self.descendant <= 1:
            raise OptionError("out-of-range", f"descendant is {self.descendant}; a probability lies between 0 and 1")
        for name, least in (
            ("binding_depth", 1),
            ("predicate_paths", 0),
            ("return_paths", 1),
            ("path_depth", 1),
            ("max_value", 1),
        ):
            value = getattr(self, name)
            if value < least:
                raise OptionError("out-of-range", f"{name} is {value}; it must be at least {least}")


class TransformGenerator:
    """Queries are distinct up to the order of their predicates and return paths, which both come sorted."""

    def __init__(self, dtd: Dtd, settings: TransformSettings | None = None, *, root: str | None = None) -> None:
        self._set = settings or TransformSettings()
        self._set.check()
        self._root = dtd.check_root(root)
        self._elements = dtd.elements
        self._children = {e.name: tuple(c for c in e.children if c in dtd.elements) for e in dtd.elements.values()}
        self._chance = Random(f"transforms/{self._set.seed}").random

    def queries(self, count: int) -> Iterator[str]:
        """``count`` queries (Q); an `OptionError` where the settings do not give that many distinct ones."""
        self._chance = Random(f"transforms/{self._set.seed}").random
        seen: set[str] = set()
        idle = 0
        while len(seen) < count:
            query = self._query()
            if query is None or query in seen:
                idle += 1
                if idle > PATIENCE:
                    raise OptionError(
                        "exhausted",
                        f"found {len(seen)} distinct transforms of the {count} asked for",
                        hint="allow more depth, more //, more return paths or a larger max value",
                    )
                continue
            idle = 0
            seen.add(query)
            yield query

    def _query(self) -> str | None:
        binding, bound = self._binding()
        if not self._children[bound]:
            return None
        wheres: set[str] = set()
        returns: set[str] = set()
        for found, wanted, predicate in (
            (wheres, self._set.predicate_paths, True),
            (returns, self._set.return_paths, False),
        ):
            for _ in range(4 * wanted):
                if len(found) == wanted:
                    break
                path = self._predicate(bound) if predicate else self._path(bound)[0]
                if path is not None:
                    found.add(path)
            if len(found) < wanted:
                return None
        where = f" where {' and '.join('$v' + one for one in sorted(wheres))}" if wheres else ""
        holes = "".join(f"{{ $v{one} }}" for one in sorted(returns))
        return f"<result>{{ for $v in {binding}{where} return <{bound}>{holes}</{bound}> }}</result>"

    def _binding(self) -> tuple[str, str]:
        """A walk from the root that ends below it where it can; the paper binds book, section, p and figure."""
        depth = min(2, self._set.binding_depth)
        length = depth + int(self._chance() * (self._set.binding_depth - depth + 1))
        names = [self._root]
        while len(names) < length:
            inner = [child for child in self._children[names[-1]] if self._children[child]]
            if not inner:
                break
            names.append(inner[int(self._chance() * len(inner))])
        return self._steps(names), names[-1]

    def _path(self, start: str) -> tuple[str, str]:
        names: list[str] = []
        at = start
        for _ in range(1 + int(self._chance() * self._set.path_depth)):
            below = self._children[at]
            if not below:
                break
            at = below[int(self._chance() * len(below))]
            names.append(at)
        return self._steps(names), at

    def _predicate(self, start: str) -> str | None:
        path, name = self._path(start)
        element = self._elements[name]
        choices = [f"/@{one.name}" for one in element.attributes if one.type == "cdata"]
        choices += [""] * element.has_text
        if not choices:
            return None
        value = 1 + int(self._chance() * self._set.max_value)
        return f'{path}{choices[int(self._chance() * len(choices))]} = "{value}"'

    def _steps(self, names: list[str]) -> str:
        return "".join(("//" if self._chance() < self._set.descendant else "/") + name for name in names)
