"""How a transform is evaluated, and what it shares with others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from twigcast.common.text import in_columns
from twigcast.errors import QueryError
from twigcast.ir.pattern import predicate_text
from twigcast.ir.transform import Transform
from twigcast.lang.flwr import parse_transform, to_xquery
from twigcast.schema import Schema
from twigcast.schema.check import never_matches


@dataclass(frozen=True, slots=True)
class SharedWith:
    """Of so many transforms, how many have which part of this one."""

    transforms: int
    binding: int
    where: int | None
    """The same condition on the same binding path, but for constants."""
    returns: Mapping[str, int]
    """By return path: the same one below the same binding path."""
    equal: int

    def lines(self) -> Iterator[str]:
        yield f"of {self.transforms:,} transforms {self.binding:,} have the binding path"
        if self.where is not None:
            yield f"{self.where:,} the condition, but for constants"
        for path, count in self.returns.items():
            yield f"{count:,} the return path {path}"
        yield f"{self.equal:,} are equal: these are made once"


class TransformExplanation:
    """How a transform is evaluated: ``str()`` is for people, ``as_dict()`` for programs."""

    def __init__(
        self,
        query: str,
        *,
        namespaces: Mapping[str, str] | None = None,
        default_namespace: str | None = None,
        schema: Schema | None = None,
        among: Iterable[Transform] | None = None,
    ) -> None:
        """Explain a transform. With ``among``, tell also what it shares with these."""
        self.transform = parse_transform(query, namespaces, default_namespace)
        scope: dict[str, Any] = {"namespaces": namespaces, "default_namespace": default_namespace}
        self.never: QueryError | None = never_matches(schema, query, **scope)
        self.shared = None if among is None else _shared(self.transform, among)

    def sections(self) -> Iterator[tuple[str, list[str]]]:
        """Headings and their lines."""
        transform = self.transform
        yield "query", to_xquery(transform).splitlines()
        yield "kind", ["transform (FLWR)"]
        if self.never is not None:
            yield "never", str(self.never).partition(": ")[2].splitlines()
        yield "binds", [transform.binding.text]
        if transform.where is not None:
            yield "where", [transform.where.text]
        yield "returns", [path.text for path in transform.return_paths] or ["nothing of the message"]
        yield "evaluated", self._how()
        if self.shared is not None:
            yield "sharing", list(self.shared.lines())

    def _how(self) -> list[str]:
        if self.transform.is_pattern:
            return ["in the kernel; paths below bound nodes, conditions and groups are found once for all transforms"]
        return ["as XPath, on its own:", *(f"  {reason.text}" for reason in self.transform.reasons)]

    def as_dict(self) -> dict[str, Any]:
        """Return all of it, for programs."""
        transform, never = self.transform, self.never
        return {
            "query": to_xquery(transform),
            "kind": "transform",
            "never": None if never is None else {"text": never.text, "hint": never.hint, **_place(never)},
            "binds": transform.binding.text,
            "where": None if transform.where is None else transform.where.text,
            "returns": [path.text for path in transform.return_paths],
            "evaluated": "kernel" if transform.is_pattern else "xpath",
            "residual": [
                {"text": reason.text, "start": reason.span.start, "end": reason.span.end}
                for reason in transform.reasons
            ],
            "sharing": None
            if self.shared is None
            else {
                "transforms": self.shared.transforms,
                "binding": self.shared.binding,
                "where": self.shared.where,
                "returns": dict(self.shared.returns),
                "equal": self.shared.equal,
            },
        }

    def __str__(self) -> str:
        return "\n".join(in_columns(self.sections()))


def _place(error: QueryError) -> dict[str, int]:
    return {} if error.span is None else {"start": error.span.start, "end": error.span.end}


def _shared(transform: Transform, among: Iterable[Transform]) -> SharedWith:
    total = binding = where = equal = 0
    returns = dict.fromkeys((path.text for path in transform.return_paths), 0)
    signature = _signature(transform)
    for one in among:
        total += 1
        equal += _meaning(one) == _meaning(transform)
        if one.binding != transform.binding:
            continue
        binding += 1
        where += _signature(one) == signature
        for path in one.return_paths:
            if path.text in returns:
                returns[path.text] += 1
    return SharedWith(total, binding, None if transform.where is None else where, returns, equal)


def _meaning(transform: Transform) -> tuple[object, ...]:
    """Whatever the variable is called."""
    return (transform.outer, transform.binding, transform.where, transform.order, transform.result)


def _signature(transform: Transform) -> str | None:
    if transform.where is None:
        return None
    predicate = transform.where.predicate
    return transform.where.text if predicate is None else predicate_text(predicate, masked=True)
