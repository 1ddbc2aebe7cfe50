"""Transforms in a snapshot as the kernel took them, so that opening one parses nothing.

Names are numbers to the kernel, given in the order in which it first hears of them: the first row has all steps in that
order, and a kernel that has heard of none yet will give them the same. A shape is written once, with the first
subscription that has it. Whoever reads another ``ENCODING`` parses the texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from twigcast.pattern import Step
from twigcast.plan.codes import StepCodes
from twigcast.transform.encode import Encoded
from twigcast.transform.templates import Prepared, Template

ENCODING = 1
"""Changes whenever ``transform/encode.py`` or ``plan/encode.py`` come to mean something else."""


class Kept:
    """What a subscription was made of: a shape that many have and its constants, or all of it."""

    __slots__ = ("constants", "own", "template")

    def __init__(self, prepared: Prepared) -> None:
        encoded = prepared.encoded
        assert encoded is not None
        self.template = prepared.template
        self.constants = encoded.constants
        # as text: a quarter of what the objects take
        self.own = b"" if self.template is not None else _packed(encoded)


def saved(kept: Iterable[tuple[int, Kept | None]], codes: StepCodes) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """By number what JSON takes; None for what the kernel did not take."""
    shapes: dict[Template, int] = {}
    first = True
    for number, one in kept:
        if one is None:
            yield number, None
            continue
        row: dict[str, Any] = {"constants": one.constants}
        if one.template is None:
            row["encoded"] = json.loads(one.own)
        else:
            if one.template not in shapes:
                shapes[one.template] = len(shapes)
                row["encoded"] = json.loads(_packed(one.template.encoded))
            row["shape"] = shapes[one.template]
        if first:
            row["encoding"] = ENCODING
            row["steps"] = [[step.axis, step.kind, step.ns, step.local, code] for step, code in codes.items()]
            first = False
        yield number, row


class Opening:
    """Rows in the order in which they were saved. ``prepared`` gives None where the text has to be parsed."""

    def __init__(self, codes: StepCodes) -> None:
        self._codes = codes
        self._shapes: dict[int, Template] = {}
        self._valid = False

    def prepared(self, row: dict[str, Any]) -> Prepared | None:
        if "steps" in row:
            # other rows may have been parsed before, so that the numbers may differ after all
            steps = [(Step(axis, kind, ns, local), code) for axis, kind, ns, local, code in row["steps"]]
            self._valid = row["encoding"] == ENCODING and all(self._codes[step] == code for step, code in steps)
        if not self._valid:
            return None
        constants = row["constants"]
        shape = row.get("shape")
        if shape is None:
            return Prepared(_unpacked(row["encoded"], constants))
        if shape not in self._shapes:
            self._shapes[shape] = Template(_unpacked(row["encoded"], constants), ())
        e = self._shapes[shape].encoded
        encoded = Encoded(e.program, constants, e.making)
        return Prepared(encoded, None, self._shapes[shape])


def _packed(e: Encoded) -> bytes:
    return json.dumps([e.program, *e.making], default=_bytes, separators=(",", ":"), ensure_ascii=False).encode()


def _bytes(value: bytes) -> dict[str, str]:
    return {"b": value.decode()}


def _unpacked(parts: Any, constants: list[str | float]) -> Encoded:
    program, order, before, pieces, after = map(_tuples, parts)
    if not isinstance(constants, list) or not all(isinstance(value, str | float) for value in constants):
        raise ValueError("constants that are none")
    return Encoded(list(program), constants, (list(order), before, list(pieces), after))


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    return value["b"].encode() if isinstance(value, dict) else value
