"""How messages reach a pattern: paths of which every message that satisfies it has at least one.

A pattern may be nothing but paths: ``/a/b[@x = "1"]`` is the path ``/a/b/@x`` with the value ``"1"`` as one more step,
because nothing but existence is asked of every node on the way; ``or`` is several such paths (``linear``).

Of any other pattern, an equality is the best access there is, for few messages have the very value; a path that must
exist comes next. The choice is per shape, so it goes by the kind of condition and not by the constant. Further paths
that it needs are guards. Without ``values``, structure alone counts.
"""

from __future__ import annotations

from operator import attrgetter

from twigcast.ir.pattern import (
    And,
    Compare,
    Exists,
    Match,
    NormalizeSpace,
    Or,
    Predicate,
    Slot,
    Step,
    StringValue,
    Twig,
    Value,
    tests_any,
    twig_of,
)
from twigcast.ir.visit import Part


class ValuePath(Part):
    """A path from the document; with ``slot``, to a node whose value equals the constant."""

    steps: tuple[Step, ...]
    slot: Slot | None = None


class Access(Part):
    """Paths of which a message has at least one. The cost is lower the fewer messages that are."""

    cost: float
    paths: tuple[ValuePath, ...]


# Any message has a root element.
ANYWAY = ValuePath((Step("child", "element"),))
# No message has it: a text node has no children.
NOWHERE = ValuePath((Step("child", "text"), Step("child", "element")))
# Each guard is looked up for every candidate; after a few there is little left to rule out.
MAX_GUARDS = 3

_EQUAL_STRING, _EQUAL_NUMBER, _PATH = 1.0, 2.0, 100.0
_cost = attrgetter("cost")


# -- patterns that paths alone decide


def linear(predicate: Predicate) -> list[ValuePath] | None:
    """Return the paths of which any decides the predicate on the document, or None if it takes more than that."""
    found = _below(predicate, ())
    if found is None or not all(path.steps and _pathlike(path.steps) for path in found):
        return None
    return found


def _below(predicate: Predicate, base: tuple[Step, ...]) -> list[ValuePath] | None:
    if type(predicate) is Exists:
        return _along(predicate.twig, base, None)
    equal = _equality(predicate)
    if equal is not None:
        return _along(equal[0], base, equal[1])
    if type(predicate) is Or:
        found: list[ValuePath] = []
        for term in predicate.terms:
            part = _below(term, base)
            if part is None:
                return None
            found += part
        return found
    return None


def _along(twig: Twig, base: tuple[Step, ...], slot: Slot | None) -> list[ValuePath] | None:
    if twig.bare:
        return [ValuePath(base + twig.steps, slot)]
    *inner, last = twig.nodes
    if slot is not None or len(last.filters) != 1 or any(node.filters for node in inner):
        return None
    return _below(last.filters[0], base + twig.steps)


def _equality(predicate: Predicate) -> tuple[Twig, Slot] | None:
    """Return the branch and the constant, if it is that some node of a branch equals a constant."""
    # not by a class pattern, which takes several times as long
    if type(predicate) is not Compare or predicate.op != "=":
        return None
    value, slot = predicate.value, predicate.const
    if type(value) is StringValue and not value.first and type(slot) is Slot and _equality_is_a_step(slot):
        return value.twig, slot
    return None


def _equality_is_a_step(slot: Slot) -> bool:
    """Return whether some value equals the constant: none equals NaN."""
    return isinstance(slot.value, str) or slot.value == slot.value


def _pathlike(steps: tuple[Step, ...]) -> bool:
    """Return whether the path engine can follow these steps. It can take ``node()`` only as the last one."""
    return _followable(steps[:-1] if steps[-1].kind == "node" else steps)


def _followable(steps: tuple[Step, ...]) -> bool:
    for step in steps:  # noqa: SIM110 - a generator takes twice as long
        if step.kind == "node" or (step.kind == "pi" and step.local is not None):
            return False
    return True


# -- what a pattern needs


def needs(predicate: Predicate, *, values: bool = True) -> list[Access]:
    """Return all paths that every message has which satisfies the predicate, as alternatives to choose from."""
    found: list[Access] = []
    _collect(predicate, (), values, found)
    return found


def access(needed: list[Access]) -> tuple[ValuePath, ...]:
    """Return the paths by which messages are found: every message that satisfies the predicate has one of them.

    Of the possible choices the one is taken that fewest messages should have.
    """
    return min(needed, key=_cost).paths if needed else (ANYWAY,)


def guards(needed: list[Access], reach: tuple[ValuePath, ...]) -> tuple[ValuePath, ...]:
    """Return further single paths that the predicate needs, those that rule out most first."""
    known = [path.steps for path in reach] if len(reach) == 1 else []
    chosen: list[ValuePath] = []
    for one in sorted(needed, key=_cost):
        path = one.paths[0]
        if len(one.paths) > 1 or path in reach or path in chosen or path == ANYWAY:
            continue
        # a path that another one goes through says nothing new
        if path.slot is None and any(other[: len(path.steps)] == path.steps for other in known):
            continue
        known.append(path.steps)
        chosen.append(path)
        if len(chosen) == MAX_GUARDS:
            break
    return tuple(chosen)


def exactly(
    program: Predicate, needed: list[Access], reach: tuple[ValuePath, ...]
) -> tuple[tuple[ValuePath, ...], int | None]:
    """Return the guards that together with ``reach`` decide a conjunction, and on which condition.

    A path that must exist and another that must exist do so of the same node if there is but one such node. The number
    says how many steps, the first of each path, must find a single node; None means that the paths do not decide.
    """
    centre = _centre(program)
    if centre is None or len(reach) > 1:
        return (), None
    others = tuple(dict.fromkeys([one.paths[0] for one in needed if one.paths != reach]))
    return (others, centre) if len(others) <= MAX_GUARDS else ((), None)


def _centre(program: Predicate) -> int | None:
    """Return how many steps lead to the only node that several paths of a conjunction must meet at; else None.

    It is 0 if they meet at the document or the root element, of which there is one in every message.
    """
    if type(program) is And:
        return 0 if all(_is_path(term, ()) or _centre(term) == 0 for term in program.terms) else None
    if type(program) is not Exists:
        return None
    nodes, steps = program.twig.nodes, program.twig.steps
    if not _followable(steps):
        return None
    centres = [at for at, node in enumerate(nodes) if node.filters]
    if not all(_is_conjunction_of_paths(one, steps) for at in centres for one in nodes[at].filters):
        return None
    if centres and centres[0] == 0 and steps[0].axis == "child" and steps[0].kind == "element":
        del centres[0]
    if len(centres) > 1:
        return None
    return centres[0] + 1 if centres else 0


def _is_conjunction_of_paths(predicate: Predicate, base: tuple[Step, ...]) -> bool:
    if type(predicate) is And:
        return all(_is_path(term, base) for term in predicate.terms)
    return _is_path(predicate, base)


def _is_path(predicate: Predicate, base: tuple[Step, ...]) -> bool:
    """Return whether a path without filters decides a predicate."""
    if type(predicate) is Exists:
        twig = predicate.twig
    else:
        equal = _equality(predicate)
        if equal is None:
            return False
        twig = equal[0]
    return twig.bare and _followable(twig.steps) and bool(twig.steps or base)


def _collect(predicate: Predicate, base: tuple[Step, ...], values: bool, found: list[Access]) -> None:
    if type(predicate) is And:
        for term in predicate.terms:
            _collect(term, base, values, found)
        return
    if type(predicate) is Exists:
        trunk = _trunk_of(predicate.twig, base, values, found)
    elif values and (equal := _equality(predicate)) is not None:
        twig, slot = equal
        own = _own(base + twig.steps, slot)
        if own is not None:
            found.append(own)
        trunk = _trunk_of(twig, base, values, found)
        if own is not None:
            return
    else:
        trunk = _of(predicate, base, values)
    if trunk is not None:
        found.append(trunk)


def _trunk_of(twig: Twig, base: tuple[Step, ...], values: bool, found: list[Access]) -> Access | None:
    """Collect what the filters on the way need. Return the trunk, if none of these is a path that goes on from it."""
    if twig.bare:
        return _trunk(base + twig.steps, base)
    steps, last = base, len(twig.nodes) - 1
    for at, node in enumerate(twig.nodes):
        steps += (node.step,)
        before = len(found)
        for one in node.filters:
            _collect(one, steps, values, found)
        if at == last and len(found) > before and len(found[-1].paths) == 1:
            return None
    return _trunk(steps, base)


def _of(predicate: Predicate, base: tuple[Step, ...], values: bool) -> Access | None:
    """Return the paths that a message must have if a node at the path ``base`` satisfies the predicate.

    None if no path follows from the predicate.
    """
    match predicate:
        case And(terms):
            return _cheapest([_of(term, base, values) for term in terms])
        case Or(terms):
            parts = [_of(term, base, values) for term in terms]
            if any(p is None for p in parts):
                return None
            found = [p for p in parts if p is not None]
            return Access(sum(p.cost for p in found), tuple(path for p in found for path in p.paths))
        case Exists(twig):
            return _twig(twig, base, values)
        case Compare(StringValue(twig, first), "=", Slot() as slot) if _equality_is_a_step(slot):
            # the first of no nodes is the empty string
            if first and slot.value in ("", 0.0):
                return None
            return _value(twig, base, slot) if values else _twig(twig, base, values)
        case Compare(value, op, Slot(const)) if not _holds_of_nothing(value, op, const):
            return _twig(twig_of(value), base, values)
        case Match(_, StringValue(twig, _) | NormalizeSpace(StringValue(twig, _)), Slot(const)) if const != "":
            return _twig(twig, base, values)
    return None


def _value(twig: Twig, base: tuple[Step, ...], slot: Slot) -> Access | None:
    return _cheapest([_own(base + twig.steps, slot), _twig(twig, base, True)])


def _own(steps: tuple[Step, ...], slot: Slot) -> Access | None:
    """Return the path to a node with the value."""
    if not steps or not _followable(steps):
        return None
    cost = _EQUAL_STRING if isinstance(slot.value, str) else _EQUAL_NUMBER
    return Access(cost - 0.01 * len(steps), (ValuePath(steps, slot),))


def _twig(twig: Twig, base: tuple[Step, ...], values: bool) -> Access | None:
    options: list[Access | None] = []
    steps = base
    for node in twig.nodes:
        steps = (*steps, node.step)
        options += [_of(filter, steps, values) for filter in node.filters]
    return _cheapest([*options, _trunk(steps, base)])


def _trunk(steps: tuple[Step, ...], base: tuple[Step, ...]) -> Access | None:
    """Return as much of the trunk as the path engine can follow."""
    while not _followable(steps):
        if len(steps) <= len(base):
            return None
        steps = steps[:-1]
    if not steps:
        return None
    return Access(_PATH - len(steps), (ValuePath(steps),))


def _cheapest(options: list[Access | None]) -> Access | None:
    best = None
    for option in options:
        if option is not None and (best is None or option.cost < best.cost):
            best = option
    return best


def _holds_of_nothing(value: Value, op: str, const: str | float) -> bool:
    """Return whether it can hold where the path finds no node, as only values of the first node and counts can."""
    if tests_any(value):
        return False
    if isinstance(const, str):
        return True
    if isinstance(value, StringValue | NormalizeSpace):
        return op == "!="
    return {"=": const == 0, "!=": const != 0, "<": const > 0, "<=": const >= 0, ">": const < 0, ">=": const <= 0}[op]
