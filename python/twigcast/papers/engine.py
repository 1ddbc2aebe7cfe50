"""An engine that matches and transforms by the papers' own strategies. The answers are the same."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from twigcast import _kernel
from twigcast import rows as row_types
from twigcast.common.arrow import pa, pc
from twigcast.engine import Subscription, engine
from twigcast.engine.columns import match_of
from twigcast.engine.compiler import parse_transform_of
from twigcast.engine.failures import Failed, FailedRows
from twigcast.engine.shares import Result
from twigcast.errors import OptionError
from twigcast.lang.shape import Shapes, scope_of
from twigcast.limits import Limits
from twigcast.papers.options import PlanOptions
from twigcast.papers.plans.transforms import PlannedDeliveries
from twigcast.papers.predicates import PREDICATES
from twigcast.plan.encode import NotEncodable
from twigcast.schema import Schema, schema_of
from twigcast.subscription import SubscriptionId
from twigcast.transform.encode import Encoded

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

    @cached_property
    def _deliveries(self) -> PlannedDeliveries:
        """The transforms that are evaluated as plans."""
        return PlannedDeliveries(self.plans)

    def _add_transform(self, number: int, s: Subscription, e: Encoded) -> None:
        if self.plans.own:
            super()._add_transform(number, s, e)
            return
        self._transforming[number] = s
        self.kernel.hold(number)
        namespaces = {**self.namespaces, **(s.namespaces or {})}
        transform = parse_transform_of(s.query, scope_of(namespaces, s.default_namespace))
        try:
            self._deliveries.add(number, transform, deliver_empty=s.deliver_empty)
        except NotEncodable:  # there is no plan for it
            super()._add_transform(number, s, e)

    def remove(self, id: SubscriptionId) -> None:
        with self._lock:
            numbers = self.numbers([id]) if id in self else []
            super().remove(id)
            for number in numbers:
                self._deliveries.remove(number)

    def _add_planned(
        self, xml: bytes, numbers: list[int], results: dict[int, Result], failed: list[Failed]
    ) -> list[int]:
        if not self._deliveries:
            return numbers
        row = self._deliveries.make(xml, self.limits)
        failed += row.failed
        results.update((one.number, one.result) for one in row.made)
        return sorted([*numbers, *(one.number for one in row.made)])

    def _add_planned_rows(self, xml: pa.Array, lists: pa.Array, error: pa.Array, failed: FailedRows) -> pa.Array:
        if not self._deliveries:
            return lists
        made, more = self._deliveries.make_column(xml, error, self.limits)
        for row, these in more.items():
            failed.setdefault(row, []).extend(these)
        if lists.type.value_type == row_types.MATCH:
            rows = [[match_of(one.number, one.result) for one in row] for row in made]
            return _merged(lists, pa.array(rows, pa.list_(row_types.MATCH)))
        return _merged(lists, pa.array([[one.number for one in row] for row in made], row_types.MATCHES), None)

    def _has_in_kernel(self) -> bool:
        return self.plans.own

    def _open_transform(self, number: int, s: Subscription, in_kernel: bool) -> None:
        # What the kernel has in a snapshot of another engine becomes a plan.
        super()._open_transform(number, s, in_kernel and self.plans.own)

    def _options(self) -> dict[str, Any]:
        names = "mode", "predicates"
        plans = "sharing", "optimize", "share_plans"
        return {**{name: getattr(self, name) for name in names}, **{name: getattr(self.plans, name) for name in plans}}

    @classmethod
    def _saved_options(cls, meta: dict[str, Any]) -> dict[str, Any]:
        return dict(meta.get("options", {}))


def _merged(left: pa.ListArray, right: pa.ListArray, key: str | None = "subscription") -> pa.ListArray:
    """Return two columns of lists as one, each list in ascending order of a field, or of the items themselves."""
    values = pa.concat_arrays([left.flatten(), right.flatten()])
    rows = pa.concat_arrays([pc.list_parent_indices(left), pc.list_parent_indices(right)])
    numbers = values if key is None else values.field(key)
    order = pc.sort_indices(
        pa.table([rows, numbers], ["row", "number"]), sort_keys=[("row", "ascending"), ("number", "ascending")]
    )
    lengths = pc.add(pc.list_value_length(left), pc.list_value_length(right))
    ends: Any = pc.cumulative_sum(lengths).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(offsets, values.take(order))
