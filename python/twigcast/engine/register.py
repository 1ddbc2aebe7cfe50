"""Plans into the kernel: each shape once, its subscriptions in bulk."""

from __future__ import annotations

import marshal
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from twigcast import _kernel
from twigcast.ir.pattern import Step
from twigcast.lang.program import Program
from twigcast.lang.program import encode as encode_query
from twigcast.lang.shape import Template
from twigcast.plan.access import ValuePath
from twigcast.plan.encode import StepCodes, encode
from twigcast.plan.planner import Plan, alternatives
from twigcast.plan.select import Selector, selector


class Codes(StepCodes):
    """Paths as the kernel numbers their steps and values."""

    def __init__(self, kernel: _kernel.Engine) -> None:
        super().__init__(kernel)
        self.kernel = kernel

    def path(self, path: ValuePath, constants: Sequence[str | float]) -> list[list[int]]:
        """The codes of a path, one list for each way to mean it."""
        value = [] if path.slot is None else [self.kernel.value_symbol(constants[path.slot.index])]
        return [steps + value for steps in self.steps(path)]

    def steps(self, path: ValuePath) -> list[list[int]]:
        """The same but for the value."""
        return [[self[step] for step in steps] for steps in alternatives(path.steps)]


Ways = tuple[tuple[tuple[int, ...], int | None], ...]
"""Codes of paths, each with the constant that its last node equals, if any."""

Texts = tuple[list[int], list[str]]
"""Subscriptions of a template that are queued, and their literals."""


def _as_key(paths: Sequence[tuple[Sequence[int], int | None]]) -> Ways:
    return tuple((tuple(steps), slot) for steps, slot in paths)


class Shape(NamedTuple):
    """A plan as the kernel takes it. Without a program any of the paths ``access`` decides."""

    program: tuple[int, ...] | None
    access: Ways
    guards: Ways
    exact: int | None


def encoded(plan: Plan, code: Callable[[Step], int]) -> Shape:
    """Return what the kernel takes of a plan. ``code`` gives a step's code. Raises NotEncodable."""
    if plan.program is None:
        return Shape(None, _ways([path for one in plan.paths for path in _alternatives(one)], code), (), None)
    program = tuple(encode(plan.program, code))
    return Shape(program, _ways(plan.paths, code), _ways(plan.guards, code), plan.exact)


def _alternatives(path: ValuePath) -> list[ValuePath]:
    return [ValuePath(steps, path.slot) for steps in alternatives(path.steps)]


def _ways(paths: Sequence[ValuePath], code: Callable[[Step], int]) -> Ways:
    return tuple([(tuple(map(code, p.steps)), None if p.slot is None else p.slot.index) for p in paths])


def _key(shape: tuple[tuple[int, ...] | None, Ways, Ways, int | None]) -> bytes:
    """Return what a shape is looked up by: bytes, which the garbage collector need not follow as it follows tuples."""
    return marshal.dumps(tuple(shape), 2)  # later versions write equal values in different ways


class Register:
    """Knows which shapes the kernel has, and queues subscriptions until ``flush``."""

    def __init__(self, kernel: _kernel.Engine) -> None:
        self.kernel = kernel
        self.codes = Codes(kernel)
        # by template: the number of its shape, or its paths; of templates that come again, else they would add up
        self._shapes: dict[Template, int] = {}
        self._paths: dict[Template, Ways] = {}
        # equal shapes that came by different texts, or in a snapshot; asked for when a first shape is new
        self._by_program: dict[bytes, int] | None = None
        self._selectors: dict[tuple[int, ...], int] = {}
        self.clear()

    def clear(self) -> None:
        """Forgets what is queued."""
        self._direct: list[int] = []
        self._steps, self._path_ends, self._sub_ends = array("I"), array("I"), array("I")
        # shape, place and constants of each: one tuple, for the garbage collector follows every container that is kept
        self._rows: list[tuple[Any, ...]] = []
        self._filling: dict[Template, Texts] = {}
        self._wants: list[tuple[int, bool, int, list[str | float]]] = []
        self._queries: list[tuple[int, Program, str]] = []

    def queue(self, index: int, template: Template, literals: Sequence[str], result: str = "match") -> None:
        """Queue the subscription ``index`` of those that the next ``flush`` adds. Raises NotEncodable or QueryError."""
        query = self.query(template, literals)
        wanted = None if result == "match" or query is not None else self._selector(template)
        filling = self._filling.get(template)
        if filling is not None:
            filling[0].append(index)
            filling[1].extend(literals)
        elif template.kept and template.slots is not None:
            self.prepare(template)
            self._filling[template] = [index], list(literals)
        else:
            self._queue(index, template, template.constants(literals))
        if query is not None:
            self._queries.append((index, query, result))
        if wanted is not None:
            number, selector = wanted
            row = selector.constants(template.constants(literals))
            self._wants.append((index, result == "fragments", number, row))

    def queue_alike(self, indexes: Iterable[int], template: Template, literals: Iterable[str]) -> None:
        """Queue subscriptions of a prepared template; ``literals`` has those of the first, then of the next."""
        filling = self._filling.setdefault(template, ([], []))
        filling[0].extend(indexes)
        filling[1].extend(literals)

    def want(self, number: int, template: Template, literals: Sequence[str], result: str) -> None:
        """What a subscription selects that the kernel has already."""
        known, selector = self._selector(template)
        self.kernel.want(number, result == "fragments", known, selector.constants(template.constants(literals)))

    def query(self, template: Template, literals: Sequence[str]) -> Program | None:
        """Return what is left to evaluate of a residual plan; None for any other. Raises QueryError."""
        if template.plan.residual is None:
            return None
        if template.query is None:
            template.query = encode_query(template.plan.residual.expr, self.kernel)
        return template.query if template.slots is None else template.query.with_literals(literals)

    def prepare(self, template: Template) -> None:
        """Find out what ``flush`` needs, which must not fail. Raises NotEncodable."""
        if template.plan.program is None:
            self._ways(template)
        else:
            self.shape(template)

    def _queue(self, index: int, template: Template, constants: Sequence[str | float]) -> None:
        """Queue a subscription of a template that is not kept, or has no slots."""
        if template.plan.program is None:
            self._queue_paths(index, self._ways(template), constants)
        else:
            self._rows.append((self.shape(template), index, *constants))

    def queue_encoded(self, index: int, shape: Shape, constants: Sequence[str | float]) -> None:
        """Queue a filter that was compiled elsewhere."""
        if shape.program is None:
            self._queue_paths(index, shape.access, constants)
        else:
            self._rows.append((self._number(shape), index, *constants))

    def _queue_paths(self, index: int, ways: Ways, constants: Sequence[str | float]) -> None:
        for codes, slot in ways:
            self._steps.extend(codes)
            if slot is not None:
                self._steps.append(self.kernel.value_symbol(constants[slot]))
            self._path_ends.append(len(self._steps))
        self._sub_ends.append(len(self._path_ends))
        self._direct.append(index)

    def _ways(self, template: Template) -> Ways:
        """The paths that decide a template without a program."""
        found = self._paths.get(template)
        if found is None:
            found = encoded(template.plan, self.codes.__getitem__).access
            if template.kept:
                self._paths[template] = found
        return found

    def shape(self, template: Template) -> int:
        """The number of the shape that a template's program is in the kernel."""
        found = self._shapes.get(template)
        if found is None:
            found = self._number(encoded(template.plan, self.codes.__getitem__))
            if template.kept:
                self._shapes[template] = found
        return found

    def _selector(self, template: Template) -> tuple[int, Selector]:
        if template.selector is None:
            made = selector(template.plan)
            program = tuple(encode(made.program, self.codes.__getitem__))
            known = self._selectors.get(program)
            if known is None:
                known = self._selectors[program] = self.kernel.add_selector(program)
            template.selector = known, made
        return template.selector

    def _number(self, shape: Shape) -> int:
        """Return the number of a shape in the kernel, which gets it if it is new."""
        if self._by_program is None:
            self._by_program = {
                _key((tuple(program), _as_key(access), _as_key(guards), exact)): number
                for number, (program, access, guards, exact) in enumerate(self.kernel.shapes())
            }
        # a program may need other paths for other constants, as ``count(x) > n`` does
        key = _key(shape)
        known = self._by_program.get(key)
        if known is None:
            assert shape.program is not None
            known = self._by_program[key] = self.kernel.add_shape(shape.program, *shape[1:])
        return known

    def flush(self, count: int) -> list[int]:
        """Adds what is queued; the numbers of all ``count`` subscriptions."""
        numbers = self.kernel.reserve(count)
        # first of all: nobody must see a residual subscription without its query
        for index, query, _ in self._queries:
            self.kernel.add_query(numbers[index], query.words, query.strings)
        if self._direct:
            direct = [numbers[i] for i in self._direct]
            self.kernel.add(direct, self._steps.tobytes(), self._path_ends.tobytes(), self._sub_ends.tobytes())
        self._rows.sort(key=itemgetter(0))
        for shape, group in groupby(self._rows, itemgetter(0)):
            rows = list(group)
            self.kernel.add_rows(shape, [numbers[row[1]] for row in rows], [one for row in rows for one in row[2:]])
        for template, (indexes, literals) in self._filling.items():
            some, columns = [numbers[i] for i in indexes], template.columns(literals, len(indexes))
            if template.plan.program is None:
                self.kernel.add_paths(self._ways(template), some, columns)
            else:
                self.kernel.add_columns(self.shape(template), some, columns)
        for index, fragments, number, row in self._wants:
            self.kernel.want(numbers[index], fragments, number, row)
        for index, _, result in self._queries:
            if result != "match":
                self.kernel.want_query(numbers[index], result == "fragments")
        self.clear()
        return numbers
