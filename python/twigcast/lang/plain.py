"""The second lane: paths with plain predicates, such as ``/bib//book[@year = "2000"][author/last]/title``.

Most subscriptions that are not paths alone are of this kind: child and descendant steps, names, and in the brackets
nothing but such paths, compared with a literal or not, and ``and``. There is one way down for each of them, nothing
about nodes above, no positions and no unknowns; hence the text goes straight to the canonical pattern, without a syntax
tree. Whatever else it finds, it leaves to the full compiler, and so it never has to word an error.
"""

from __future__ import annotations

import math
import re

from twigcast.lang.canon import conj
from twigcast.lang.structural import DEEP, NotPlain, PathCompiler, Steps
from twigcast.lang.values import to_number
from twigcast.pattern import TRUE, Compare, Const, Exists, Node, Pattern, Predicate, Selection, Step, StringValue, Twig

# Beyond these the full compiler has its own limits.
MAX_LENGTH = 1_000
MAX_NESTED = 10

_NAME = r"[A-Za-z_][\w.-]*"
_NUMBER = r"-?[0-9]+(?:\.[0-9]*)?"
# White space is skipped; what is none of the others is a token of one character, that no rule below knows.
_TOKEN = re.compile(
    rf"""[ \t\r\n]*(//?|[!<>]=|[\[\]=<>]|text\(\)|@?(?:{_NAME}(?::{_NAME})?|\*)|"[^"]*"|'[^']*'|{_NUMBER}"""
    r"""|\.(?://?)?|.)""",
    re.ASCII | re.DOTALL,
)
_IS_NUMBER = re.compile(_NUMBER)
_OPERATORS = frozenset(("=", "!=", "<", "<=", ">", ">="))
_ITSELF = StringValue(Twig())

Trunk = list[tuple[Step, list[Predicate]]]


def plain(text: str, compiler: PathCompiler) -> Pattern | None:
    """The pattern of a text in this lane; None for any other."""
    if text[:1] != "/" or "[" not in text or len(text) > MAX_LENGTH or not text.isprintable():
        return None
    tokens: list[str] = _TOKEN.findall(text)
    tokens.append("")
    try:
        steps, end = _trunk(tokens, 1, tokens[0] == "//", compiler.steps, 0)
    except NotPlain:
        return None
    first = steps[0][0]
    if tokens[end] or (first.axis == "child" and first.kind != "element"):
        return None
    trunk = Twig(tuple([Node(step, (conj(*filters),) if filters else ()) for step, filters in steps]))
    return Pattern(_holds(steps, None), (Selection(TRUE, trunk),))


def _trunk(tokens: list[str], at: int, deep: bool, known: Steps, nested: int) -> tuple[Trunk, int]:
    """The steps from the token ``at`` on, and where they end."""
    steps: Trunk = []
    while True:
        step = known[DEEP + tokens[at] if deep else tokens[at]]
        filters: list[Predicate] = []
        at += 1
        while tokens[at] == "[":
            at = _predicate(tokens, at + 1, known, nested + 1, filters)
        steps.append((step, filters))
        token = tokens[at]
        deep = token == "//"
        more = deep or token == "/"
        if (more or filters) and step.kind != "element":
            raise NotPlain
        if not more:
            return steps, at
        at += 1


def _predicate(tokens: list[str], at: int, known: Steps, nested: int, found: list[Predicate]) -> int:
    """Appends the terms of a predicate to ``found``; returns where it ends."""
    if nested > MAX_NESTED:
        raise NotPlain
    while True:
        token = tokens[at]
        steps: Trunk = []
        if token == ".":
            at += 1
        else:
            deep = token == ".//"
            steps, at = _trunk(tokens, at + 1 if deep or token == "./" else at, deep, known, nested)
        leaf = None
        if tokens[at] in _OPERATORS:
            leaf = Compare(_ITSELF, tokens[at], _const(tokens[at], tokens[at + 1]))
            at += 2
        elif not steps:
            raise NotPlain
        found.append(_holds(steps, leaf))
        token = tokens[at]
        at += 1
        if token == "]":
            return at
        if token != "and":
            raise NotPlain


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


def _holds(steps: Trunk, leaf: Compare | None) -> Predicate:
    """That the steps find a node, for which ``leaf`` holds: canonical, as ``canon.exists`` and ``any_of`` make it."""
    tail: tuple[Node, ...] = ()
    for step, filters in reversed(steps):
        if not filters:
            tail = (Node(step), *tail)
            continue
        one = conj(*filters, _below(tail, leaf)) if tail or leaf is not None else conj(*filters)
        match one:
            case Exists(Twig(nodes)):
                tail, leaf = (Node(step), *nodes), None
            case Compare(StringValue(Twig(nodes))):
                tail, leaf = (Node(step), *nodes), one
            case _:
                tail, leaf = (Node(step, (one,)),), None
    return _below(tail, leaf)


def _below(tail: tuple[Node, ...], leaf: Compare | None) -> Predicate:
    return Exists(Twig(tail)) if leaf is None else Compare(StringValue(Twig(tail)), leaf.op, leaf.const)
