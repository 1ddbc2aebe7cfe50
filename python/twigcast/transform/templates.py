"""Transforms and correlations are shapes plus constants too (DESIGN.md, idea 1): a known shape is registered without
parsing again.

As in ``shape.py`` a text is split at its literals, and which of them are mere constants is found out once, by compiling
the text again with a sentinel in place of each. What comes out is what the kernel takes, not a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from twigcast.errors import QueryError
from twigcast.ir.pattern import Predicate
from twigcast.lang.lexer import check_text
from twigcast.lang.literals import LITERAL, literal_of, with_sentinels
from twigcast.lang.shape import Scope, plain_slots
from twigcast.plan.slots import slotted

_MAX_CACHED = 100_000


class Encoded(Protocol):
    """What the kernel takes. It equals another one of the same shape with the same constants."""

    @property
    def constants(self) -> Sequence[str | float]: ...

    def with_constants(self, constants: Sequence[str | float]) -> Self: ...


Parsed = TypeVar("Parsed")
Made = TypeVar("Made", bound=Encoded)


@dataclass(frozen=True, slots=True, eq=False)
class Template(Generic[Made]):
    """What all queries of one shape share. ``slots`` says for some of the constants which literal they are, and
    the sign: 1 or -1 for a number, 0 for a string."""

    encoded: Made
    slots: tuple[tuple[int, int, int], ...]

    def takes(self, literals: list[str]) -> bool:
        """Whether the literals say what they mean: no references, no line ends to normalise, no empty strings, which
        some conditions are decided by."""
        for _, i, sign in self.slots:
            literal = literals[i]
            if not sign and (len(literal) == 2 or "&" in literal or "\r" in literal):
                return False
        return True

    def filled(self, literals: list[str]) -> Made:
        e = self.encoded
        constants = list(e.constants)
        for at, i, sign in self.slots:
            constants[at] = sign * float(literals[i]) if sign else literals[i][1:-1]
        return e.with_constants(constants)


class Templates(Generic[Parsed, Made]):
    """``parse`` reads a text in a scope, ``encode`` makes what the kernel takes, and ``condition`` returns a predicate
    with all that has constants."""

    def __init__(
        self,
        parse: Callable[[str, Scope], Parsed],
        encode: Callable[[Parsed], Made],
        condition: Callable[[Parsed], Predicate],
    ) -> None:
        self._parse = parse
        self._encode = encode
        self._condition = condition
        self._known: dict[tuple[object, ...], Template[Made]] = {}
        # the literals that belong to the shape, by text without literals; None: seen once
        self._fixed: dict[tuple[object, ...], tuple[int, ...] | None] = {}

    def __len__(self) -> int:
        return len(self._known)

    def prepare(self, text: str, scope: Scope) -> Made:
        """Return the encoding of a query. Raises QueryError."""
        check_text(text)
        parts = LITERAL.split(text)
        literals = parts[1::2]
        key = (scope, *parts[::2], *["s" if x[0] in "\"'" else "n" for x in literals])
        fixed = self._fixed.get(key)
        if fixed is not None:
            template = self._known.get((key, *[literals[i] for i in fixed]))
            if template is not None and template.takes(literals):
                return template.filled(literals)
        made = self._encode(self._parse(text, scope))
        if key not in self._fixed:
            # most shapes never come again, and learning one costs two more compilations
            if len(self._fixed) >= _MAX_CACHED:
                self._fixed.clear()
                self._known.clear()
            self._fixed[key] = None
            return made
        self._learn(made, scope, parts, key)
        return made

    def _learn(self, made: Made, scope: Scope, parts: list[str], key: tuple[object, ...]) -> None:
        literals = parts[1::2]
        generic = self._generic(scope, parts, list(range(len(literals))))
        template: Template[Made] | None = Template(made, ())
        if generic:
            template = self._template(made, scope, parts, sorted(generic))
        if template is None or not template.takes(literals):
            return
        fixed = tuple(i for i in range(len(literals)) if i not in generic)
        self._fixed[key] = fixed
        own = (key, *[literals[i] for i in fixed])
        self._known[own] = template

    def _generic(self, scope: Scope, parts: list[str], indexes: list[int]) -> set[int]:
        """The literals that become plain constants, each exactly once."""
        probe = self._probe(scope, parts, indexes)
        if probe is None:  # some must not be what they are not, such as a window as long as that
            indexes = [i for i in indexes if self._probe(scope, parts, [i]) is not None]
            probe = self._probe(scope, parts, indexes)
        if probe is None:
            return set()
        program, values = slotted(self._condition(probe))
        plain = plain_slots(program)
        found = [literal_of(value) for j, value in enumerate(values) if j in plain]
        sure = [hit[0] for hit in found if hit is not None]
        return {i for i in sure if sure.count(i) == 1}

    def _template(self, actual: Made, scope: Scope, parts: list[str], generic: list[int]) -> Template[Made] | None:
        """The slots of the generic literals, if with sentinels all else is as it actually is."""
        probe = self._probe(scope, parts, generic)
        if probe is None:
            return None
        try:
            encoded = self._encode(probe)
        except QueryError:
            return None
        if encoded.with_constants([]) != actual.with_constants([]):
            return None
        slots = []
        for at, (value, own) in enumerate(zip(encoded.constants, actual.constants, strict=True)):
            hit = literal_of(value)
            if hit is not None:
                slots.append((at, *hit))
            elif value != own:
                return None
        if sorted(i for _, i, _ in slots) != generic:
            return None
        return Template(actual, tuple(slots))

    def _probe(self, scope: Scope, parts: list[str], indexes: list[int]) -> Parsed | None:
        try:
            return self._parse(with_sentinels(parts, indexes), scope)
        except QueryError:
            return None
