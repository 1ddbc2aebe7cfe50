"""Plans into the kernel: each shape once, its subscriptions in bulk."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from twigcast import _kernel
from twigcast.pattern import Step
from twigcast.plan.encode import NotEncodable, encode
from twigcast.plan.linear import ValuePath
from twigcast.plan.planner import Plan, alternatives
from twigcast.plan.select import Selector, selector
from twigcast.shape import Template

_DESCENDANT = 1 << 31
_ANY = {"element": 0, "attribute": 1, "text": 2, "comment": 4, "pi": 6, "node": 10}


class Codes(dict[Step, int]):
    """Steps as the kernel numbers them."""

    def __init__(self, kernel: _kernel.Engine) -> None:
        super().__init__()
        self.kernel = kernel

    def __missing__(self, step: Step) -> int:
        code = self[step] = self.symbol(step) | (_DESCENDANT if step.axis == "descendant" else 0)
        return code

    def symbol(self, step: Step) -> int:
        if step.ns is None and step.local is None and step.kind in _ANY:
            return _ANY[step.kind]
        if step.kind in ("element", "attribute") and step.ns is not None:
            return self.kernel.symbol(step.kind == "attribute", step.ns, step.local)
        raise NotEncodable

    def path(self, path: ValuePath, constants: Sequence[str | float]) -> list[list[int]]:
        """The codes of a path, one list for each way to mean it."""
        value = [] if path.slot is None else [self.kernel.value_symbol(constants[path.slot.index])]
        return [steps + value for steps in self.steps(path)]

    def steps(self, path: ValuePath) -> list[list[int]]:
        """The same but for the value."""
        return [[self[step] for step in steps] for steps in alternatives(path.steps)]


Ways = Sequence[tuple[Sequence[int], int | None]]
Coded = list[tuple[list[int], int | None]]
"""Codes of paths, each with the constant that its last node equals, if any."""


def _key(program: Sequence[int], access: Ways, guards: Ways, exact: bool) -> tuple[object, ...]:
    """All that makes a shape: a program may need other paths for other constants, as ``count(x) > n`` does."""
    ways = [tuple((tuple(steps), slot) for steps, slot in list) for list in (access, guards)]
    return (exact, *ways, *program)


class Register:
    """Knows which shapes the kernel has, and queues subscriptions until ``flush``."""

    def __init__(self, kernel: _kernel.Engine) -> None:
        self.kernel = kernel
        self.codes = Codes(kernel)
        # by template: the number of its shape, or its paths; of templates that come again, else they would add up
        self._shapes: dict[Template, int] = {}
        self._paths: dict[Template, Coded] = {}
        # equal shapes that came by different texts, or in a snapshot; asked for when a first shape is new
        self._by_program: dict[tuple[object, ...], int] | None = None
        self._selectors: dict[tuple[int, ...], int] = {}
        self.clear()

    def clear(self) -> None:
        """Forgets what is queued."""
        self._direct: list[int] = []
        self._steps, self._path_ends, self._sub_ends = array("I"), array("I"), array("I")
        self._rows: dict[int, tuple[list[int], list[str | float]]] = {}
        self._wants: list[tuple[int, bool, int, list[str | float]]] = []

    def queue(self, index: int, template: Template, constants: Sequence[str | float], result: str = "match") -> None:
        """The subscription ``index`` of those that the next ``flush`` adds. Raises NotEncodable."""
        wanted = None if result == "match" or template.plan.residual is not None else self._selector(template)
        self._queue(index, template, constants)
        if wanted is not None:
            number, selector = wanted
            self._wants.append((index, result == "fragments", number, selector.constants(constants)))

    def want(self, number: int, template: Template, constants: Sequence[str | float], result: str) -> None:
        """What a subscription selects that the kernel has already."""
        known, selector = self._selector(template)
        self.kernel.want(number, result == "fragments", known, selector.constants(constants))

    def _queue(self, index: int, template: Template, constants: Sequence[str | float]) -> None:
        if template.plan.program is None:
            for codes, slot in self._coded(template):
                self._steps.extend(codes)
                if slot is not None:
                    self._steps.append(self.kernel.value_symbol(constants[slot]))
                self._path_ends.append(len(self._steps))
            self._sub_ends.append(len(self._path_ends))
            self._direct.append(index)
            return
        indexes, rows = self._rows.setdefault(self.shape(template), ([], []))
        indexes.append(index)
        rows.extend(constants)

    def _coded(self, template: Template) -> Coded:
        found = self._paths.get(template)
        if found is None:
            paths = template.plan.paths
            found = [(codes, None if p.slot is None else p.slot.index) for p in paths for codes in self.codes.steps(p)]
            if template.kept:
                self._paths[template] = found
        return found

    def shape(self, template: Template) -> int:
        """The number of the shape that a template's program is in the kernel."""
        found = self._shapes.get(template)
        if found is None:
            found = self._shape(template.plan)
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

    def _shape(self, plan: Plan) -> int:
        assert plan.program is not None
        program = encode(plan.program, self.codes.__getitem__)
        access, guards = self._access(plan.paths), self._access(plan.guards)
        if self._by_program is None:
            self._by_program = {_key(*shape): number for number, shape in enumerate(self.kernel.shapes())}
        key = _key(program, access, guards, plan.exact)
        known = self._by_program.get(key)
        if known is None:
            known = self._by_program[key] = self.kernel.add_shape(program, access, guards, plan.exact)
        return known

    def _access(self, paths: Sequence[ValuePath]) -> list[tuple[list[int], int | None]]:
        return [([self.codes[step] for step in p.steps], None if p.slot is None else p.slot.index) for p in paths]

    def flush(self, count: int) -> list[int]:
        """Adds what is queued; the numbers of all ``count`` subscriptions."""
        numbers = self.kernel.reserve(count)
        if self._direct:
            direct = [numbers[i] for i in self._direct]
            self.kernel.add(direct, self._steps.tobytes(), self._path_ends.tobytes(), self._sub_ends.tobytes())
        for shape, (indexes, rows) in self._rows.items():
            self.kernel.add_rows(shape, [numbers[i] for i in indexes], rows)
        for index, fragments, number, row in self._wants:
            self.kernel.want(numbers[index], fragments, number, row)
        self.clear()
        return numbers
