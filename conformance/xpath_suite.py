"""The XPath suites: what we answer, what libxml2 answers, and a score table.

`python conformance/xpath_suite.py` prints the table and the list of exceptions as it would have to be.
`xpath_exceptions.txt` is that list, each case with its reason; `xpath_test.py` fails when it is too long or too short.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lxml import etree

from twigcast import Engine, Subscription, _kernel, papers
from twigcast.engine.register import Register
from twigcast.errors import MessageError, QueryError
from twigcast.ir.pattern import Residual
from twigcast.lang import ast
from twigcast.lang.compile import compile_query
from twigcast.lang.context import at_document
from twigcast.lang.shape import Template
from twigcast.lang.xpath import parse
from twigcast.limits import Limits
from twigcast.plan.access import ANYWAY
from twigcast.plan.planner import Plan
from twigcast.schema.libxml2 import read
from xpath_cases import SUITES, Case, cases

EXCEPTIONS = Path(__file__).with_name("xpath_exceptions.txt")
UNHURRIED = Limits(max_query_steps=2**62, max_query_bytes=2**62)
MODES: tuple[str, ...] = tuple(_kernel.papers.MODES)
# Nodes of the trie are compiled at their sixth visit.
WARM = 7

# -- answers: "true", "false", "refused" (the expression) or "unreadable" (the document)


@cache
def libxml2(case: Case) -> str:
    """The answer of libxml2, which is told the context."""
    namespaces = dict(case.namespaces) or None
    try:
        etree.XPath(case.expr, namespaces=namespaces)  # brackets without a partner must not find one in ours
        query = f"boolean(({case.context})[1][boolean({case.expr})])"
        return "true" if _tree(case.document).xpath(query, namespaces=namespaces) else "false"
    except etree.XPathError:
        return "refused"


@cache
def _tree(xml: bytes | str) -> etree._ElementTree:
    """Return a document as libxml2 reads it where the kernel does not, such as in an encoding that it does not know."""
    try:
        return read(xml, UNHURRIED)
    except MessageError:
        return etree.ElementTree(etree.fromstring(xml.encode() if isinstance(xml, str) else xml))


def queries(case: Case) -> list[str]:
    """The case as subscriptions, whose context node is the document: each means the same."""
    if libxml2(case) == "refused":
        return [case.expr]
    if case.context == "/":
        return [case.expr, f"(/)[boolean({case.expr})]"]
    context = case.context
    if len(_tree(case.document).xpath(context, namespaces=dict(case.namespaces) or None)) != 1:
        context = f"({context})[1]"
    wrapped = f"{context}[boolean({case.expr})]"
    try:
        expr = parse(case.expr, case.namespaces)
    except QueryError:
        return [wrapped]
    alternatives = expr.operands if isinstance(expr, ast.Union) else (expr,)
    joined = []
    for one in alternatives:
        if not isinstance(one, ast.LocationPath):
            return [wrapped]
        text = case.expr[one.span.start : one.span.end]
        joined.append(text if one.absolute else f"{context}/{text}")
    return [" | ".join(joined), wrapped]


def answer(case: Case, modes: Sequence[str] = MODES[:1]) -> str:
    """What engines with one subscription answer; all answers, should they differ by mode or way of writing."""
    return " and ".join(sorted({_ours(case, query, mode) for query in queries(case) for mode in modes}))


def _engine(mode: str) -> Engine:
    return Engine(limits=UNHURRIED) if mode == MODES[0] else papers.Engine(mode=mode, limits=UNHURRIED)


def _ours(case: Case, query: str, mode: str) -> str:
    engine = _engine(mode)
    try:
        engine.add(query, namespaces=case.namespaces)
        return "true" if engine.match(case.document) else "false"
    except QueryError:
        return "refused"
    except MessageError:
        return "unreadable"


def evaluated(case: Case) -> str:
    """Return what the kernel's evaluator answers without patterns before it, for a case whose queries are accepted."""
    kernel = _kernel.Engine()
    register = Register(kernel)
    every = queries(case)
    for number, query in enumerate(every):
        residual = Residual(None, (), at_document(parse(query, case.namespaces)))
        register.queue(number, Template(Plan((ANYWAY,), None, (), residual)), ())
    register.flush(len(every))
    found, failed, error = kernel.match_one(case.document, UNHURRIED.as_dict())
    if error is not None:
        return "unreadable"
    assert not failed
    return " and ".join(sorted({"true" if number in found else "false" for number in range(len(every))}))


def in_bulk(all_cases: Iterable[Case], answers: Mapping[Case, str], mode: str) -> list[tuple[str, str, str]]:
    """All cases of one document as one set of subscriptions, which is how the product works; cold and warm.

    Returns what comes out otherwise than alone.
    """
    by_document: dict[bytes, list[Case]] = defaultdict(list)
    for case in all_cases:
        if answers[case] in ("true", "false"):
            by_document[case.document].append(case)
    wrong: list[tuple[str, str, str]] = []
    for document, group in by_document.items():
        # In the first mode every query comes twice, so that the second one finds its shape known.
        pairs = [(case, query) for case in group for query in queries(case)] * (2 if mode == MODES[0] else 1)
        engine = _engine(mode)
        engine.add_many(Subscription(i, query, case.namespaces) for i, (case, query) in enumerate(pairs))
        expected = {i for i, (case, _) in enumerate(pairs) if answers[case] == "true"}
        for when in ("cold", "warm"):
            differ = expected.symmetric_difference(engine.match(document))
            wrong += [(pairs[int(i)][0].id, pairs[int(i)][1], when) for i in differ]
            for _ in range(WARM):
                engine.kernel.match_one(document, engine.limits.as_dict())
    return wrong


# -- exceptions: why an answer may be other than the suite says, and when that can be true at all


def _agreed(case: Case, found: str) -> bool:
    return found == libxml2(case)


# Cases that are no XPath 1.0, or that cannot be run here.
NOT_RUN: dict[str, Callable[[Case, str], bool]] = {
    # A subscription has no variables.
    "variable": lambda case, _: "$" in case.expr,
    # evaluate(), document(), upper-case() and the like; libxml2 does not know them either.
    "extension-function": lambda case, _: case.suite == "jaxen" and libxml2(case) == "refused",
    # element(/1/2) and other schemes of XPointer.
    "xpointer": lambda case, _: "/xptr/" in case.id and libxml2(case) == "refused",
    # The document says encoding="unicode", which SEMANTICS 11 does not have.
    "encoding": lambda case, found: found == "unreadable" and b"unicode" in case.document[:100].replace(b"\0", b""),
    # XPath 1.0 has no exponents in number literals (3.7) and none in strings made of numbers (4.2); libxml2 has.
    "exponent": lambda case, found: bool(re.search(r"\de[+-]?\d", case.expr)) and not _agreed(case, found),
}

_DOTNET_NUMBER = re.compile(r"Infinity|string\(-0|string\(number\(")

# Cases that libxml2 gets wrong or the suite does; we agree with libxml2.
REASONS = NOT_RUN | {
    # Valid XPath 1.0 that .NET refuses as a match pattern, or because it wants a node-set.
    "valid": lambda case, found: case.expected == "refused" and _agreed(case, found),
    # .NET's characters are UTF-16 code units; XPath's are characters (3.6).
    "dotnet-utf-16": lambda case, found: not case.expr.isascii() and "translate" in case.expr and _agreed(case, found),
    # The order of namespace nodes is the implementation's own (5.4), and so is what they precede.
    "namespace-nodes": lambda case, found: "namespace::" in case.context + case.expr and _agreed(case, found),
    # .NET converts strings to numbers its own way: "Infinity" is one (4.4 says NaN), and string(-0) should be zero.
    "dotnet-numbers": lambda case, found: bool(_DOTNET_NUMBER.search(case.expr)) and _agreed(case, found),
}


def exceptions() -> dict[str, str]:
    """The checked-in list: id to reason."""
    lines = (line.split(" ") for line in EXCEPTIONS.read_text().splitlines() if not line.startswith("#"))
    return {words[0]: words[1] for words in lines}


# -- scores


@dataclass
class Score:
    """``cases`` that can be run; of these, how many come out as the suite says, how many libxml2 gets right, and how
    many of these we do; ``accepted`` are subscriptions, and ``shared`` those that run without residual."""

    cases: int = 0
    right: int = 0
    libxml2_right: int = 0
    both_right: int = 0
    accepted: int = 0
    shared: int = 0
    not_run: int = 0


def scores(answers: Mapping[Case, str]) -> dict[str, Score]:
    """By suite: its own expressions, and (``suite values``) those that look closer at their results."""
    listed = exceptions()
    found: dict[str, Score] = {}
    for case, ours in answers.items():
        score = found.setdefault(case.suite if case.is_truth else f"{case.suite} values", Score())
        if listed.get(case.id) in NOT_RUN:
            score.not_run += 1
            continue
        score.cases += 1
        score.right += ours == case.expected
        score.libxml2_right += libxml2(case) == case.expected
        score.both_right += ours == libxml2(case) == case.expected
        if ours in ("true", "false"):
            score.accepted += 1
            score.shared += not isinstance(compile_query(queries(case)[0], case.namespaces), Residual)
    return {name: found[name] for name in sorted(found, key=lambda name: (name.endswith("values"), name))}


def table(by_suite: Mapping[str, Score]) -> str:
    rows = [["suite", "cases", "as the suite says", "libxml2 right", "of these we", "without residual", "not run"]]
    for name, s in by_suite.items():
        agreed, shared = f"{s.both_right / s.libxml2_right:.1%}", f"{s.shared / s.accepted:.1%}"
        rows.append([name, str(s.cases), str(s.right), str(s.libxml2_right), agreed, shared, str(s.not_run)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def main() -> None:
    all_cases = cases()
    if not all_cases:
        raise SystemExit(f"the suites are not here: {', '.join(SUITES)}")
    answers = {case: answer(case) for case in all_cases}
    for case, ours in answers.items():
        if ours != case.expected:
            reason = next((name for name, holds in REASONS.items() if holds(case, ours)), "UNEXPLAINED")
            print(case.id, reason, "#", " ".join(case.expr.split())[:100])
    print(table(scores(answers)))


if __name__ == "__main__":
    main()
