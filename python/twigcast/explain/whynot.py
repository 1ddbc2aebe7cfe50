"""Why a message does not match a query: the first step or condition that fails, at the node that comes closest.

The verdict is the engine's. The explanation follows the syntax tree of the query, part by part, each evaluated by
libxml2 on the message, so it covers all of XPath and speaks of the text as its author wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lxml import etree

from twigcast import _kernel
from twigcast.engine import Engine, Failure, Subscription
from twigcast.engine.register import Register
from twigcast.errors import MessageError
from twigcast.explain import Explanation, explain
from twigcast.explain.causes import Cause, Search, lines
from twigcast.explain.message import Found, MessageTree
from twigcast.ir import visit
from twigcast.lang import ast
from twigcast.lang.context import Context, at
from twigcast.lang.shape import Template
from twigcast.lang.xpath import parse
from twigcast.limits import Limits
from twigcast.plan.access import ANYWAY
from twigcast.plan.encode import NotEncodable
from twigcast.plan.planner import Plan

SELECTED = 5
"""How many of the selected nodes are shown."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one message."""

    query: str
    matches: bool
    why: Cause | None
    """Why not; or, for a query that selects no nodes, why. None for one that does, or where libxml2 cannot tell."""
    selected: tuple[Found, ...] = ()
    """The first nodes that the query selects."""
    count: int | None = None
    """How many it selects; None for a query that is not a node-set."""
    residual: tuple[str, ...] = ()
    """What keeps the query from being a tree pattern."""
    reached: bool | None = None
    """For a residual query: whether the message got as far as the XPath evaluator."""

    def as_dict(self) -> dict[str, object]:
        return {
            "match": self.matches,
            "selected": [one.as_dict() for one in self.selected],
            "count": self.count,
            "why": None if self.why is None else self.why.as_dict(),
            "residual": list(self.residual),
            "reached": self.reached,
        }

    def __str__(self) -> str:
        text = ["match" if self.matches else "no match"]
        if self.count is not None and self.matches:
            text += [f"  selects {one}" for one in self.selected]
            if self.count > len(self.selected):
                text.append(f"  … and {self.count - len(self.selected):,} more")
        if self.reached is not None:
            who = "the message passed the shared part, and the XPath evaluator decided"
            text.append(f"  residual: {who if self.reached else 'the shared part turned the message away'}")
            text += [f"    {reason}" for reason in self.residual]
        if self.why is not None:
            text += lines(self.why, self.query, "  ")
        return "\n".join(text)


class Probe:
    """One query, to be tested on messages.

    >>> print(Probe('/order[total > 100]').test(b'<order><total>70</total></order>'))
    no match
      predicate [total > 100] of step 1, /order, fails at /order (1:1)
        total is "70", not > 100
          /order[total > 100]
                 ^^^^^^^^^^^
    """

    def __init__(
        self,
        query: str,
        *,
        namespaces: Mapping[str, str] | None = None,
        default_namespace: str | None = None,
        dialect: str = "w3c",
        limits: Limits | None = None,
    ) -> None:
        self.query = query
        self.engine = Engine(namespaces=namespaces, limits=limits)
        self.engine.add(query, id=0, default_namespace=default_namespace, dialect=dialect)
        self.explanation: Explanation = explain(
            query, namespaces=namespaces, default_namespace=default_namespace, dialect=dialect
        )
        self._expr = parse(query, namespaces, default_namespace, dialect=dialect)
        self._shared = _shared_part(self.engine, self.query, default_namespace, dialect)

    def test(self, xml: bytes) -> Verdict:
        """Return what becomes of a message.

        Raises MessageError if it cannot be read, and SubscriptionError if the query takes too much on it.
        """
        failures: list[Failure] = []
        matches = bool(self.engine.match(xml, failures=failures))
        for failure in failures:
            raise failure.error
        reached = None
        if self._shared is not None:
            reached = bool(self._shared.match_one(xml, self.engine.limits.as_dict())[0])
        residual = tuple(reason.text for reason in self.explanation.residual)
        verdict = Verdict(self.query, matches, None, residual=residual, reached=reached)
        try:
            return self._explained(MessageTree(xml, self.engine.limits), verdict)
        except (etree.LxmlError, MessageError, RecursionError) as error:
            return replace(verdict, why=Cause(f"libxml2 cannot say more: {error}", self._expr.span))

    def _explained(self, tree: MessageTree, verdict: Verdict) -> Verdict:
        whole = at(self._expr, Context())
        if tree.truth(whole) != verdict.matches:
            text = "libxml2 and the engine disagree about this message: please report it"
            return replace(verdict, why=Cause(text, self._expr.span))
        if verdict.matches and ast.type_of(self._expr) == ast.NODE_SET:
            return replace(verdict, selected=tuple(tree.first(whole, SELECTED)), count=tree.count(whole))
        search = Search(tree, self.query)
        why = search.true if verdict.matches else search.false
        return replace(verdict, why=why(self._expr, Context()))


def _shared_part(engine: Engine, query: str, default_namespace: str | None, dialect: str) -> _kernel.Engine | None:
    """Return a kernel with what a residual query shares: the pattern that messages have to satisfy first."""
    if not engine.kernel.has_query(0):
        return None
    template, _ = engine._compiler.split(Subscription(0, query, default_namespace=default_namespace, dialect=dialect))
    kernel = _kernel.Engine()
    register = Register(kernel)
    try:
        register.queue(0, Template(visit.replace(template.plan, residual=None)), ())
    except NotEncodable:
        register.queue(0, Template(Plan((ANYWAY,), None, ())), ())
    register.flush(1)
    return kernel
