"""Steps as a kernel numbers them."""

from __future__ import annotations

from typing import Protocol

from twigcast.ir.pattern import Step
from twigcast.plan.encode import NotEncodable

_DESCENDANT = 1 << 31
_ANY = {"element": 0, "attribute": 1, "text": 2, "comment": 4, "pi": 6, "node": 10}


class Symbols(Protocol):
    def symbol(self, attribute: bool, uri: str | None, local: str | None) -> int | None: ...


class StepCodes(dict[Step, int]):
    def __init__(self, symbols: Symbols) -> None:
        super().__init__()
        self.symbols = symbols

    def __missing__(self, step: Step) -> int:
        code = self[step] = self.symbol(step) | (_DESCENDANT if step.axis == "descendant" else 0)
        return code

    def symbol(self, step: Step) -> int:
        if step.ns is None and step.local is None and step.kind in _ANY:
            return _ANY[step.kind]
        if step.kind in ("element", "attribute"):
            symbol = self.symbols.symbol(step.kind == "attribute", step.ns, step.local)
            if symbol is not None:
                return symbol
        raise NotEncodable
