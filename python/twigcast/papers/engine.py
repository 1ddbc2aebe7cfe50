"""An engine that matches and transforms by the papers' own strategies. The answers are the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twigcast import _kernel, engine
from twigcast.engine import Subscription
from twigcast.errors import OptionError
from twigcast.limits import Limits
from twigcast.papers.options import PlanOptions
from twigcast.papers.plans.transforms import PlannedDeliveries
from twigcast.papers.predicates import PREDICATES
from twigcast.schema import Schema, schema_of
from twigcast.shape import Shapes, scope_of
from twigcast.transform.deliveries import Deliveries
from twigcast.transform.templates import Prepared

MODES: tuple[str, ...] = _kernel.papers.MODES


class Engine(engine.Engine):
    """An engine with the papers' options beside its own.

    ``mode`` says how paths are matched: ``trie`` (Twigcast's), ``nfa`` (YFilter's shared automaton) or
    ``fsm-per-query`` (XFilter). ``predicates`` says when values are compared: ``shared`` (Twigcast's), ``inline`` or
    ``postponed`` (YFilter's). ``sharing``, ``optimize`` and ``share_plans`` choose a plan of the message broker's for
    transforms (see ``PlanOptions``); the default is Twigcast's own engine.
    """

    def __init__(
        self,
        *,
        namespaces: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        cache_bytes: int | None = None,
        schema: Schema | str | Path | None = None,
        on_invalid: str = "fallback",
        mode: str = "trie",
        predicates: str = "shared",
        sharing: str = "FWR",
        optimize: str = "schema",
        share_plans: bool = True,
    ) -> None:
        if mode not in MODES:
            raise OptionError("unknown-mode", f"there is no mode {mode!r}", hint=f"the modes are {', '.join(MODES)}")
        if predicates not in PREDICATES:
            hint = f"the strategies for predicates are {', '.join(PREDICATES)}"
            raise OptionError("unknown-predicates", f"there is no strategy {predicates!r}", hint=hint)
        self.mode = mode
        self.predicates = predicates
        schema = schema_of(schema)
        self.plans = PlanOptions(sharing, optimize, share_plans, schema, on_invalid)
        super().__init__(
            namespaces=namespaces, limits=limits, cache_bytes=cache_bytes, schema=schema, on_invalid=on_invalid
        )

    def _make_kernel(self) -> _kernel.Engine:
        return _kernel.papers.engine(self.mode, **self._cache)

    def _open_kernel(self, data: object) -> _kernel.Engine:
        return _kernel.papers.open_engine(data, self.mode, **self._cache)

    def _make_shapes(self) -> Shapes:
        return Shapes(PREDICATES[self.predicates])

    def _make_deliveries(self) -> Deliveries:
        return super()._make_deliveries() if self.plans.own else PlannedDeliveries(self._parsed, self.plans)

    def _prepare(self, s: Subscription) -> Prepared:
        if self.plans.own:
            return super()._prepare(s)
        namespaces = {**self.namespaces, **(s.namespaces or {})}
        return Prepared(None, engine.parse_transform_of(s.query, scope_of(namespaces, s.default_namespace)))

    def _has_in_kernel(self, number: int) -> bool | None:
        return super()._has_in_kernel(number) if self.plans.own else None

    def _open_transform(self, number: int, s: Subscription, in_kernel: bool | None) -> None:
        # What the kernel has in a snapshot of another engine becomes a plan.
        super()._open_transform(number, s, in_kernel if self.plans.own else None)

    def _options(self) -> dict[str, Any]:
        names = "mode", "predicates"
        plans = "sharing", "optimize", "share_plans"
        return {**{name: getattr(self, name) for name in names}, **{name: getattr(self.plans, name) for name in plans}}

    @classmethod
    def _saved_options(cls, meta: dict[str, Any]) -> dict[str, Any]:
        return dict(meta.get("options", {}))
