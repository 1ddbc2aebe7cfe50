"""What ``explain`` and ``test`` say of transforms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from twigcast.constructor import Transform
from twigcast.engine import Engine
from twigcast.lang.flwr import parse_transform, to_xquery
from twigcast.limits import Limits
from twigcast.transform.plan import Planner
from twigcast.transform.plan import explain as plan_tree
from twigcast.whynot import Probe


class TransformExplanation:
    """As ``twigcast.explain.Explanation``, for a transform."""

    def __init__(self, query: str, *, namespaces: Mapping[str, str]) -> None:
        self.transform = parse_transform(query, namespaces)
        self.plan = plan_tree(Planner().plan(self.transform))

    def sections(self) -> Iterator[tuple[str, list[str]]]:
        transform = self.transform
        yield "query", to_xquery(transform).splitlines()
        yield "kind", ["transform"]
        yield "binds", [transform.binding.text]
        if transform.where is not None:
            yield "where", [transform.where.text]
        yield "returns", [path.text for path in transform.return_paths] or ["nothing of the message"]
        yield "evaluated", self._how()
        yield "plan", self.plan.splitlines()

    def _how(self) -> list[str]:
        if self.transform.is_pattern:
            return ["in the kernel; paths below bound nodes, conditions and groups are found once for all transforms"]
        return ["by libxml2, on its own:", *(f"  {reason.text}" for reason in self.transform.reasons)]

    def as_dict(self) -> dict[str, Any]:
        return {name: lines if len(lines) > 1 else lines[0] for name, lines in self.sections()}


class TransformProbe:
    """Tells what a transform makes of a message, or why nothing."""

    def __init__(self, query: str, *, namespaces: Mapping[str, str], limits: Limits | None) -> None:
        self._engine = Engine(namespaces=namespaces, limits=limits)
        self._engine.add(query)
        self._why = Probe(as_filter(parse_transform(query, namespaces)), limits=limits)

    def test(self, xml: bytes) -> tuple[bool, dict[str, Any], str]:
        """Whether something is made, and that for machines and for people."""
        found = self._engine.select(xml)
        if not found:
            verdict = self._why.test(xml)
            return False, verdict.as_dict(), str(verdict)
        payload = found[0].payload
        if payload is None:
            return True, {"matches": True, "complete": False}, "matches, but what it makes is longer than the limit"
        return True, {"matches": True, "payload": payload.decode()}, f"makes\n{payload.decode()}"


def as_filter(transform: Transform) -> str:
    """The filter that holds for the messages that the transform makes something of."""
    where = "" if transform.where is None else f"[{transform.where.text}]"
    return transform.binding.text + where
