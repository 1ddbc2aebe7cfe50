"""What ``test`` says of transforms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twigcast.engine import Engine, Failure
from twigcast.ir.transform import Transform
from twigcast.lang.flwr import parse_transform
from twigcast.limits import Limits
from twigcast.shares import REASONS
from twigcast.whynot import Probe


class TransformProbe:
    """Tells what a transform makes of a message, or why nothing."""

    def __init__(self, query: str, *, namespaces: Mapping[str, str], limits: Limits | None) -> None:
        self._engine = Engine(namespaces=namespaces, limits=limits)
        self._engine.add(query)
        self._why = Probe(_as_filter(parse_transform(query, namespaces)), limits=limits)

    def test(self, xml: bytes) -> tuple[bool, dict[str, Any], str]:
        """Whether something is made, and that for machines and for people."""
        failures: list[Failure] = []
        found = self._engine.select(xml, failures=failures)
        for failure in failures:
            raise failure.error
        if not found:
            verdict = self._why.test(xml)
            return False, verdict.as_dict(), str(verdict)
        payload, reason = found[0].payload, found[0].reason
        if payload is None:
            why = REASONS.get(reason or "", "what it makes is longer than the limit")
            return True, {"match": True, "complete": False, "reason": reason}, f"matches, but {why}"
        return True, {"match": True, "payload": payload.decode()}, f"makes\n{payload.decode()}"


def _as_filter(transform: Transform) -> str:
    """Return the filter that holds for the messages that the transform makes something of."""
    where = "" if transform.where is None else f"[{transform.where.text}]"
    return transform.binding.text + where
