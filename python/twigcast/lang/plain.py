"""The second lane: paths with plain predicates, such as ``/bib//book[@year = "2000"][author/last]/title``.

Most subscriptions that are not paths alone are of this kind: child and descendant steps, names, and in the brackets
nothing but such paths, compared with a literal or not, and ``and``. There is one way down for each of them, nothing
about nodes above, no positions and no unknowns; hence the text goes straight to the canonical pattern, without a syntax
tree. Whatever else it finds, it leaves to the full compiler, and so it never has to word an error.
"""

from __future__ import annotations

import math
import re

from twigcast.ir.pattern import TRUE, Compare, Const, Exists, Node, Pattern, Predicate, Selection, StringValue, Twig
from twigcast.lang.canon import conj
from twigcast.lang.structural import Branches, NotPlain, PathCompiler
from twigcast.lang.values import to_number

# Beyond these the full compiler has its own limits.
MAX_LENGTH = 1_000
MAX_NESTED = 10

_NAME = r"[A-Za-z_][\w.-]*"
_NUMBER = r"-?[0-9]+(?:\.[0-9]*)?"
_STEP = rf"(?:text\(\)|@?(?:{_NAME}(?::{_NAME})?|\*))"
_PATH = rf"(?:\.?//?[ ]*)?{_STEP}(?:[ ]*//?[ ]*{_STEP})*"
# A path up to its next predicate is one token. Spaces are skipped; what is none of the others is a token of one
# character, that no rule below knows.
_TOKEN = re.compile(rf"""[ ]*({_PATH}|[!<>]=|[\[\]=<>]|"[^"]*"|'[^']*'|{_NUMBER}|.)""", re.ASCII | re.DOTALL)
_IS_NUMBER = re.compile(_NUMBER)
_OPERATORS = frozenset(("=", "!=", "<", "<=", ">", ">="))

_HERE = StringValue(Twig())

Test = tuple[str, Const]
"""An operator, and what a value is compared with."""


def plain(text: str, compiler: PathCompiler) -> Pattern | None:
    """The pattern of a text in this lane; None for any other."""
    if text[:1] != "/" or "[" not in text or len(text) > MAX_LENGTH or not text.isprintable():
        return None
    tokens: list[str] = _TOKEN.findall(text)
    tokens.append("")
    try:
        nodes, end = _trunk(tokens, 0, compiler.branches, 0)
    except NotPlain:
        return None
    first = nodes[0].step
    if tokens[end] or (first.axis == "child" and first.kind != "element"):
        return None
    return Pattern(_holds(nodes, None), (Selection(TRUE, Twig(tuple(nodes))),))


def _trunk(tokens: list[str], at: int, known: Branches, nested: int) -> tuple[list[Node], int]:
    """The steps from the token ``at`` on with their filters, and where they end."""
    nodes: list[Node] = []
    while True:
        nodes += known[tokens[at]].nodes
        at += 1
        if tokens[at] != "[":
            return nodes, at
        filters: list[Predicate] = []
        while tokens[at] == "[":
            at = _predicate(tokens, at + 1, known, nested + 1, filters)
        step = nodes[-1].step
        if step.kind != "element":
            raise NotPlain
        nodes[-1] = Node(step, (conj(*filters) if len(filters) > 1 else filters[0],))
        if tokens[at][:1] != "/":
            return nodes, at


def _predicate(tokens: list[str], at: int, known: Branches, nested: int, found: list[Predicate]) -> int:
    """Appends the terms of a predicate to ``found``; returns where it ends."""
    if nested > MAX_NESTED:
        raise NotPlain
    while True:
        token = tokens[at]
        if token == ".":
            at += 1
            found.append(Compare(_HERE, *_test(tokens, at)))
            at += 2
        elif token[:1] == "/":
            raise NotPlain
        else:
            branch = known[token]
            nodes = None
            at += 1
            if tokens[at] == "[":
                nodes, at = _trunk(tokens, at - 1, known, nested)
            test = None
            if tokens[at] in _OPERATORS:
                test = _test(tokens, at)
                at += 2
            if nodes is not None:
                found.append(_holds(nodes, test))
            else:
                found.append(branch.exists if test is None else Compare(branch.value, *test))
        token = tokens[at]
        at += 1
        if token == "]":
            return at
        if token != "and":
            raise NotPlain


def _test(tokens: list[str], at: int) -> Test:
    op = tokens[at]
    if op not in _OPERATORS:
        raise NotPlain
    return op, _const(op, tokens[at + 1])


def _const(op: str, token: str) -> Const:
    if token[:1] in ("'", '"') and len(token) > 1:
        if op in ("=", "!="):
            return Const(token[1:-1])
        number = to_number(token[1:-1])
        if not math.isnan(number):
            return Const(number)
    elif _IS_NUMBER.fullmatch(token):
        return Const(float(token))
    raise NotPlain


def _holds(nodes: list[Node], test: Test | None) -> Predicate:
    """That the nodes are there, the last with a value as in the test: as ``canon.exists`` and ``any_of`` make it."""
    for node in nodes:
        if node.filters:
            break
    else:
        return _below(tuple(nodes), test)
    tail: tuple[Node, ...] = ()
    for node in reversed(nodes):
        if not node.filters:
            tail = (node, *tail)
            continue
        one = conj(*node.filters, _below(tail, test)) if tail or test is not None else node.filters[0]
        if type(one) is Exists:
            tail, test = (Node(node.step), *one.twig.nodes), None
        elif type(one) is Compare and type(one.value) is StringValue:
            tail, test = (Node(node.step), *one.value.twig.nodes), (one.op, one.const)
        else:
            tail, test = (Node(node.step, (one,)),), None
    return _below(tail, test)


def _below(tail: tuple[Node, ...], test: Test | None) -> Predicate:
    return Exists(Twig(tail)) if test is None else Compare(StringValue(Twig(tail)), *test)
