"""Transforms evaluated as plans of the broker paper, in place of the kernel's own engine, with the same answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from twigcast import _kernel
from twigcast.constructor import Transform
from twigcast.forking import refuse_if_forked_in_use
from twigcast.limits import Limits
from twigcast.papers.options import PlanOptions
from twigcast.papers.plans.encode import encoded_plan
from twigcast.papers.plans.operators import Nothing
from twigcast.plan.codes import StepCodes
from twigcast.plan.encode import NotEncodable
from twigcast.schema.gate import INVALID, Gate
from twigcast.transform.deliveries import Deliveries, Made, Row


class PlannedTransforms:
    """Transforms by number, each run as the plan that ``options`` ask for.

    Messages are valid where the options say that invalid ones are rejected: that is up to the caller.
    """

    def __init__(self, options: PlanOptions) -> None:
        self.options = options
        self.plans = _kernel.papers.Plans()
        self.codes = StepCodes(self.plans)
        refuse_if_forked_in_use(self, "plans")
        self._planner = options.planner()
        self._numbers: set[int] = set()
        self._empty: set[int] = set()
        """Transforms whose plans prove that they bind nothing."""
        self._without_schema: PlannedTransforms | None = None
        """Plans for invalid messages, which do not rely on the schema."""
        self._gate: Gate | None = None
        if options.relies_on_schema and options.on_invalid == "fallback":
            assert options.schema is not None
            self._without_schema = PlannedTransforms(replace(options, optimize="query", schema=None))
            self._gate = Gate([options.schema])

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, number: int) -> bool:
        return number in self._numbers

    def add(self, number: int, transform: Transform) -> None:
        """Add a transform. Raises NotEncodable where no plan can evaluate it."""
        if self._without_schema is not None:
            self._without_schema.add(number, transform)
        try:
            plan = self._planner.plan(transform)
            if isinstance(plan.root, Nothing):
                self._empty.add(number)
            else:
                p = encoded_plan(plan, self.codes.__getitem__)
                self.plans.add(number, p.codes, p.program, p.constants, p.making, self.options.share_plans)
        except NotEncodable:
            if self._without_schema is not None:
                self._without_schema.remove(number)
            raise
        self._numbers.add(number)

    def remove(self, number: int) -> None:
        """Remove a transform."""
        self._numbers.remove(number)
        if number in self._empty:
            self._empty.remove(number)
        else:
            self.plans.remove(number)
        if self._without_schema is not None:
            self._without_schema.remove(number)

    def _for(self, xml: bytes, limits: Limits) -> _kernel.papers.Plans:
        """Return the plans to run: these, or those without the schema if the message is invalid."""
        if self._without_schema is None or self._gate is None:
            return self.plans
        error = self._gate.error(xml, limits)
        return self._without_schema.plans if error is not None and error.code == INVALID else self.plans

    def match(self, xml: bytes, limits: Limits) -> tuple[list[int], _kernel.Error | None]:
        """Return the subscriptions that get something of a message, or why it was refused."""
        return self._for(xml, limits).match_one(xml, limits.of_kernel())

    def make(self, xml: bytes, limits: Limits) -> tuple[list[Made], _kernel.Error | None]:
        """Do as ``match`` does, with what the subscriptions get. Equal payloads are one object."""
        numbers, places, payloads, cuts, error = self._for(xml, limits).transform_one(xml, limits.of_kernel())
        given: list[tuple[bytes | None, str | None]] = [(payload, None) for payload in payloads]
        for place, reason in cuts:
            given[place] = None, reason
        return [Made(number, *given[place]) for number, place in zip(numbers, places, strict=True)], error


class PlannedDeliveries(Deliveries):
    """Transforms evaluated as plans, or by libxml2 where there is no plan, or where it is too much for one message."""

    def __init__(self, transform_of: Callable[[int], Transform], options: PlanOptions) -> None:
        super().__init__(transform_of)
        self._plans = PlannedTransforms(options)

    def add(self, number: int, transform: Transform | None, *, deliver_empty: bool = False) -> None:
        """Add a transform; None for one that is parsed now."""
        transform = transform or self._parsed(number)
        super().add(number, transform, deliver_empty=deliver_empty)
        with suppress(NotEncodable):
            self._plans.add(number, transform)

    def remove(self, number: int) -> None:
        """Remove a transform, if it is here."""
        super().remove(number)
        if number in self._plans:
            self._plans.remove(number)

    def _evaluate(self, numbers: Iterable[int], xml: bytes, limits: Limits, row: Row) -> None:
        made, error = self._plans.make(xml, limits)
        if error is None:
            row.made += made
            numbers = [number for number in numbers if number not in self._plans]
        super()._evaluate(numbers, xml, limits, row)
