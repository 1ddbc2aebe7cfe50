"""Transforms evaluated as plans of the broker paper, in place of the kernel's own engine, with the same answers."""

from __future__ import annotations

from dataclasses import replace

from twigcast import _kernel
from twigcast import rows as row_types
from twigcast.arrow import pa
from twigcast.constructor import Transform
from twigcast.limits import Limits
from twigcast.papers.options import PlanOptions
from twigcast.papers.plans.encode import encoded_plan
from twigcast.papers.plans.operators import Nothing
from twigcast.plan.codes import StepCodes
from twigcast.plan.encode import NotEncodable
from twigcast.rows import error_row
from twigcast.schema.gate import INVALID, Gate
from twigcast.transform.engine import Made, Transforms, made_of, messages_of, row_of


class PlannedTransforms(Transforms):
    """Transforms by number, each run as the plan that ``options`` ask for.

    Messages are valid where the options say that invalid ones are rejected: that is up to the caller.
    """

    def __init__(self, options: PlanOptions) -> None:
        super().__init__()
        self.options = options
        self.plans = _kernel.papers.Plans()
        self.codes = StepCodes(self.plans)
        self._planner = options.planner()
        self._empty: set[int] = set()
        """Transforms whose plans prove that they bind nothing."""
        self._without_schema: PlannedTransforms | None = None
        """Plans for invalid messages, which do not rely on the schema."""
        self._gate: Gate | None = None
        if options.relies_on_schema and options.on_invalid == "fallback":
            assert options.schema is not None
            self._without_schema = PlannedTransforms(replace(options, optimize="query", schema=None))
            self._gate = Gate([options.schema])

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
        return made_of(self._for(xml, limits).transform_one(xml, limits.of_kernel()))

    def match_column(self, column: pa.Array, limits: Limits) -> tuple[pa.Array, pa.Array]:
        """Return lists of numbers, ascending, and errors."""
        rows = [self.match(xml, limits) for xml in messages_of(column)]
        lists = pa.array([sorted(numbers) for numbers, _ in rows], row_types.MATCHES)
        return lists, pa.array([None if error is None else error_row(*error) for _, error in rows], row_types.ERROR)

    def make_column(
        self, column: pa.Array, start: int, max_bytes: int, limits: Limits
    ) -> tuple[pa.Array, pa.Array, int]:
        """Return lists of ``MADE`` from a row on until there are ``max_bytes``, errors, and the first row not done."""
        rows, errors, size = [], [], 0
        for xml in messages_of(column.slice(start)):
            made, error = self.make(xml, limits)
            made.sort(key=lambda one: one.number)
            rows.append([row_of(one) for one in made])
            errors.append(None if error is None else error_row(*error))
            size += sum(8 + len(one.payload or b"") for one in made)
            if size >= max_bytes:
                break
        return pa.array(rows, pa.list_(row_types.MADE)), pa.array(errors, row_types.ERROR), start + len(rows)
