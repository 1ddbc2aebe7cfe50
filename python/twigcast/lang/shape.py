"""A subscription is a shape plus constants (DESIGN.md, idea 1): a known shape is registered without parsing again.

The text of a query is split at its literals. What is left, with those literals that are no plain constants (positions,
counts), names the *template*: the plan, and which literal goes into which slot. Which literals are plain is found out
once, by compiling the text again with a sentinel in place of each.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from twigcast.errors import QueryError
from twigcast.ir.pattern import (
    Compare,
    Match,
    NormalizeSpace,
    Predicate,
    Slot,
    StringValue,
    constants,
    predicate_text,
    twig_text,
)
from twigcast.ir.visit import walk
from twigcast.lang import ast
from twigcast.lang.compile import compile_query
from twigcast.lang.lexer import MAX_LENGTH, check_text
from twigcast.lang.literals import LITERAL, Rest, all_sentinels, literal_of, taken_apart, with_sentinels
from twigcast.lang.plain import plain
from twigcast.lang.program import Program
from twigcast.lang.structural import compiler_for
from twigcast.plan.planner import Plan, Reach, plan
from twigcast.plan.select import Selector

_MAX_CACHED = 200_000

Scope = tuple[tuple[tuple[str, str], ...], str, str]
"""Namespaces, default element namespace and dialect: what a text's meaning depends on."""

Key = tuple[Scope, Rest]
"""A text without its literals, and what it means."""

Column = tuple[bool, list[str]]
"""Are these numbers? And the texts, without quotes."""


@dataclass(eq=False, slots=True)
class Template:
    """What all subscriptions of one shape share.

    ``slots`` says for each constant which literal it is, and its sign: 1 or -1 for a number, 0 for a string. Without
    them, the constants are those of the plan, whatever the literals are.
    """

    plan: Plan
    slots: tuple[tuple[int, int], ...] | None = None
    kept: bool = False
    """The next subscription of this shape will have this very template."""
    selector: tuple[int, Selector] | None = None
    """What selects the results, and its number in the kernel; once a subscription wants them."""
    query: Program | None = None
    """Of a residual plan, what the kernel evaluates; once there is a subscription."""

    @property
    def constant_literals(self) -> set[int]:
        """The literals that may differ between subscriptions: those of the pattern, and of a query that is encoded."""
        if self.slots is None:
            return set()
        return {i for i, _ in self.slots} | {i for i, _, _ in (self.query.sentinels if self.query else ())}

    def constants(self, literals: Sequence[str]) -> Sequence[str | float]:
        """The constants of one text."""
        if self.slots is None:
            return self.plan.constants
        return [
            float(literals[i]) if sign > 0 else -float(literals[i]) if sign else literals[i][1:-1]
            for i, sign in self.slots
        ]

    def columns(self, literals: list[str], count: int) -> list[Column]:
        """Those of ``count`` texts, slot by slot; ``literals`` has theirs one after the other."""
        assert self.slots is not None
        every = len(literals) // count
        return [_column(literals[i::every], sign) for i, sign in self.slots]


def _column(literals: list[str], sign: int) -> Column:
    if sign == 0:
        return False, [text[1:-1] for text in literals]
    return True, literals if sign > 0 else ["-" + text for text in literals]


@dataclass(frozen=True, slots=True)
class Family:
    """The templates of one text without literals."""

    fixed: tuple[int, ...]
    """The literals that belong to the shape rather than to the constants."""
    templates: dict[tuple[str, ...], Template]
    """By those literals."""


class Shapes:
    """Query texts to templates and constants. ``reach`` plans conditions: see ``plan.planner``."""

    def __init__(self, reach: Reach | None = None) -> None:
        self._reach = reach
        # by text without literals
        self._families: dict[tuple[Scope, Rest], Family] = {}
        self._count = 0
        # texts without literals seen once: a template is kept from the second text on, for most shapes never come again
        self._once: set[int] = set()
        # by the whole text: the constants of a residual query are part of it
        self._residual: dict[tuple[Scope, str], Template] = {}

    def __len__(self) -> int:
        return self._count

    def split(self, text: str, scope: Scope) -> tuple[Template, list[str]]:
        """The template of a query and its literals, of which the template makes constants; raises QueryError."""
        if self._residual:
            known = self._residual.get((scope, text))
            if known is not None:
                return known, []
        rest, literals = taken_apart(text)
        key = scope, rest
        family = self._families.get(key)
        if family is not None and '""' not in literals and "''" not in literals:
            template = family.templates.get(tuple([literals[i] for i in family.fixed]) if family.fixed else ())
            if template is not None:
                if len(text) > MAX_LENGTH:
                    check_text(text)
                return template, literals
        return self._learn(text, key, literals), literals

    def _learn(self, text: str, key: Key, literals: list[str]) -> Template:
        scope = key[0]
        may_be_kept = '""' not in literals and "''" not in literals
        if may_be_kept:
            if len(text) > MAX_LENGTH:
                check_text(text)
            found = self._plain_template(key)
            if found is not None:
                return found if self._is_new(key) else self._keep(key, literals, (), found)
        actual = self._plan(text, scope)
        own = Template(actual)
        if actual.residual is not None:
            return self._learn_residual(text, key, literals, own)
        if not may_be_kept or self._is_new(key):
            return own
        everything = range(len(literals))
        fixed: tuple[int, ...] = tuple(everything)
        template = None
        if literals:
            parts = LITERAL.split(text)
            probe = self._probe(scope, parts, list(everything))
            generic = _generic(probe)
            if generic:
                fixed = tuple(i for i in everything if i not in generic)
                if fixed:
                    probe = self._probe(scope, parts, sorted(generic))
                template = _template(actual, probe)
        elif not actual.constants:
            template = Template(actual, ())
        if template is None:
            return own
        return self._keep(key, literals, fixed, template)

    def _plain_template(self, key: Key) -> Template | None:
        """Return the template of a text that ``plain`` can read, in which each literal is a constant of the pattern."""
        (namespaces, default, _), rest = key
        pattern = plain(all_sentinels(rest), compiler_for(dict(namespaces), default or None))
        if pattern is None:
            return None
        found = plan(pattern, self._reach)
        slots = [hit for hit in map(literal_of, found.constants) if hit is not None]
        return Template(found, tuple(slots)) if len(slots) == len(found.constants) else None

    def _is_new(self, key: Hashable) -> bool:
        """Return whether something is seen for the first time."""
        seen = hash(key)
        if seen in self._once:
            return False
        if len(self._once) >= 2 * _MAX_CACHED:
            self._once.clear()
        self._once.add(seen)
        return True

    def _keep(self, key: Key, literals: list[str], fixed: tuple[int, ...], template: Template) -> Template:
        if self._count >= _MAX_CACHED:
            self._families.clear()
            self._count = 0
        family = self._families.setdefault(key, Family(fixed, {}))
        family.templates[tuple([literals[i] for i in fixed])] = template
        self._count += 1
        template.kept = True
        return template

    def _learn_residual(self, text: str, key: Key, literals: list[str], own: Template) -> Template:
        """Return the template of a residual query. One whose constants are not plain is kept by its whole text."""
        unlearnt = key, "residual"
        is_learnable = literals and '""' not in literals and "''" not in literals and hash(unlearnt) not in self._once
        if is_learnable and not self._is_new(key):
            parts = LITERAL.split(text)
            everything = range(len(literals))
            probe = self._probe(key[0], parts, list(everything), residual=True)
            generic = set() if probe is None else _compared_literals(probe)
            template = None
            if generic:
                template = _template(own.plan, self._probe(key[0], parts, sorted(generic), residual=True))
            if template is not None:
                return self._keep(key, literals, tuple(i for i in everything if i not in generic), template)
            self._is_new(unlearnt)
        if len(self._residual) >= _MAX_CACHED // 10:
            self._residual.clear()
        self._residual[key[0], text] = own
        own.kept = True
        return own

    def _plan(self, text: str, scope: Scope) -> Plan:
        namespaces, default, dialect = scope
        return plan(compile_query(text, dict(namespaces), default or None, dialect=dialect), self._reach)

    def _probe(self, scope: Scope, parts: list[str], indexes: list[int], *, residual: bool = False) -> Plan | None:
        """Return the plan with sentinels at some literals; None if it is not of the same kind."""
        try:
            probe = self._plan(with_sentinels(parts, indexes), scope)
        except QueryError:
            return None
        return probe if (probe.residual is not None) == residual else None


def _generic(probe: Plan | None) -> set[int]:
    """Return the literals that become plain constants, each exactly once. ``probe`` has sentinels at all literals."""
    if probe is None:
        return set()
    plain = _plain_slots(probe)
    found = [literal_of(value) for j, value in enumerate(probe.constants) if j in plain]
    sure = [hit[0] for hit in found if hit is not None]
    return {i for i in sure if sure.count(i) == 1}


def _template(actual: Plan, probe: Plan | None) -> Template | None:
    """Return the plan with sentinels at the generic literals, if it is the actual one but for constants."""
    if probe is None or _outline(probe) != _outline(actual):
        return None
    slots = []
    for j, value in enumerate(probe.constants):
        hit = literal_of(value)
        if hit is None or j not in _plain_slots(probe):
            return None
        slots.append(hit)
    selected = [c.value for s in probe.selects or () for part in (s.guard, s.twig) for c in constants(part)]
    if any(value not in probe.constants and literal_of(value) is not None for value in selected):
        return None
    return Template(probe, tuple(slots))


def _compared_literals(probe: Plan) -> set[int]:
    """Return the literals of a residual query that are only compared with nodes: its plan does not depend on them.

    ``probe`` has sentinels at all literals.
    """
    assert probe.residual is not None
    found: set[int] = set()
    for one in ast.walk(probe.residual.expr):
        if isinstance(one, ast.Comparison):
            for literal, other in ((one.left, one.right), (one.right, one.left)):
                match literal:
                    case ast.Number(value) if ast.type_of(other) == ast.NODE_SET:
                        hit = literal_of(value)
                    case ast.String(text) if ast.type_of(other) == ast.NODE_SET and one.op in ("=", "!="):
                        hit = literal_of(text)
                    case _:
                        hit = None
                if hit is not None:
                    found.add(hit[0])
    plain = _plain_slots(probe)
    in_plan = [(j in plain, literal_of(value)) for j, value in enumerate(probe.constants)]
    return found - {hit[0] for is_plain, hit in in_plan if hit is not None and not is_plain}


def _outline(p: Plan) -> tuple[object, ...]:
    """The plan without its constants."""
    paths = tuple((path.steps, None if path.slot is None else path.slot.index) for path in p.paths)
    kinds = tuple(isinstance(value, str) for value in p.constants)
    selects = p.selects and [(predicate_text(s.guard, masked=True), twig_text(s.twig, masked=True)) for s in p.selects]
    return paths, p.program and predicate_text(p.program, masked=True), kinds, selects, p.pick


def _plain_slots(p: Plan) -> set[int]:
    """The slots of comparisons whose plan does not depend on the constant: not those that hold of nothing for some."""
    if p.program is None:
        return {path.slot.index for path in p.paths if path.slot is not None}
    return plain_slots(p.program)


def plain_slots(program: Predicate) -> set[int]:
    """The same of a condition."""
    found: set[int] = set()
    for part in walk(program):
        match part:
            case Compare(StringValue(_, False) | NormalizeSpace(StringValue(_, False)), _, Slot(_, index)):
                found.add(index)
            case Match(_, _, Slot(_, index)):
                found.add(index)
    return found


def scope_of(namespaces: Mapping[str, str], default: str | None, dialect: str = "w3c") -> Scope:
    return tuple(sorted(namespaces.items())), default or "", dialect
