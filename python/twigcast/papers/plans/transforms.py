"""Transforms evaluated as plans of the broker paper, in place of the kernel's own engine, with the same answers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from twigcast import _kernel
from twigcast.common.arrow import pa
from twigcast.common.forking import refuse_if_forked_in_use
from twigcast.engine.failures import FATAL, Failed, FailedRows
from twigcast.engine.shares import BUDGET_BYTES, RESULT_BYTES, Result
from twigcast.ir.transform import Transform
from twigcast.limits import Limits
from twigcast.papers.options import PlanOptions
from twigcast.papers.plans.encode import encoded_plan
from twigcast.papers.plans.factory import TooLong
from twigcast.papers.plans.nodes import Message
from twigcast.papers.plans.operators import Nothing
from twigcast.papers.plans.reference import groups
from twigcast.papers.plans.render import render
from twigcast.papers.plans.sharing import Sharing
from twigcast.plan.encode import NotEncodable, StepCodes
from twigcast.schema.gate import INVALID, Gate


@dataclass(slots=True)
class Made:
    """The new message that a subscription gets of a message, or the reason why it does not get it."""

    number: int
    payload: bytes | None
    reason: str | None = None

    @property
    def result(self) -> Result:
        """What the subscription gets."""
        return None, None, self.reason is None, self.payload, self.reason

    def size(self) -> int:
        """Return the bytes that it has."""
        return len(self.payload or b"")

    def cut(self, share: int) -> None:
        """Take it away if it is larger than a share."""
        if self.size() > share:
            self.payload, self.reason = None, BUDGET_BYTES


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
        return self._for(xml, limits).match_one(xml, limits.as_dict())

    def make(self, xml: bytes, limits: Limits) -> tuple[list[Made], _kernel.Error | None]:
        """Do as ``match`` does, with what the subscriptions get. Equal payloads are one object."""
        numbers, places, payloads, cuts, error = self._for(xml, limits).transform_one(xml, limits.as_dict())
        given: list[tuple[bytes | None, str | None]] = [(payload, None) for payload in payloads]
        for place, reason in cuts:
            given[place] = None, reason
        return [Made(number, *given[place]) for number, place in zip(numbers, places, strict=True)], error


@dataclass(slots=True)
class Row:
    """What is made of one message, and the transforms that failed on it."""

    made: list[Made] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)


class PlannedDeliveries:
    """Transforms by number, evaluated as plans, or node by node where a plan is too much for one message.

    Who asked for ``deliver_empty`` gets the empty outer element where nothing is bound (SEMANTICS 15).
    """

    def __init__(self, options: PlanOptions) -> None:
        self._plans = PlannedTransforms(options)
        self._transforms: dict[int, Transform] = {}
        self._empty: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._transforms)

    def add(self, number: int, transform: Transform, *, deliver_empty: bool = False) -> None:
        """Add a transform. Raises NotEncodable where no plan can evaluate it."""
        self._plans.add(number, transform)
        self._transforms[number] = transform
        if deliver_empty:
            self._empty[number] = render(transform, [], deliver_empty=True) or b""

    def remove(self, number: int) -> None:
        """Remove a transform, if it is here."""
        if self._transforms.pop(number, None) is not None:
            self._plans.remove(number)
            self._empty.pop(number, None)

    def make(self, xml: bytes, limits: Limits) -> Row:
        """Return what is made of a message that can be read."""
        row = Row()
        row.made, error = self._plans.make(xml, limits)
        if error is not None:
            self._make_each(xml, limits, row)
        left = self._empty.keys() - {made.number for made in row.made} - {one.number for one in row.failed}
        row.made += [Made(number, self._empty[number]) for number in sorted(left)]
        return row

    def make_column(self, column: pa.Array, errors: pa.Array, limits: Limits) -> tuple[list[list[Made]], FailedRows]:
        """Return what is made of the messages of a column, but for those with an error, and the failures by row."""
        made: list[list[Made]] = []
        failed: FailedRows = {}
        for at, xml in enumerate(column.to_pylist()):
            row = Row()
            if not errors[at].is_valid:
                row = self.make(xml.encode() if isinstance(xml, str) else xml or b"", limits)
            made.append(row.made)
            if row.failed:
                failed[at] = row.failed
        return made, failed

    def _make_each(self, xml: bytes, limits: Limits, row: Row) -> None:
        """Make the messages of all transforms node by node."""
        row.made = []
        shared = Sharing[Made](limits.max_message_result_bytes, Made.size, Made.cut)
        for number, transform in self._transforms.items():
            most = min(limits.max_result_bytes, shared.share)
            try:
                payload = render(transform, groups(transform, Message(xml, limits)), most=most)
            except TooLong:
                reason = BUDGET_BYTES if most < limits.max_result_bytes else RESULT_BYTES
                shared.add(Made(number, None, reason), beyond=reason == BUDGET_BYTES)
            except FATAL:
                raise
            except BaseException as error:
                row.failed.append(Failed.of(number, error, "transform-refused"))
            else:
                if payload is not None:
                    shared.add(Made(number, payload), beyond=False)
        row.made += shared.finish()
