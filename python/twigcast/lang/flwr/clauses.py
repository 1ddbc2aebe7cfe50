"""The parser of transforms: prolog, outer element, and the clauses of its FLWR expression."""

from __future__ import annotations

import re
from collections.abc import Callable

from twigcast.common.text import misspelt
from twigcast.errors import Span
from twigcast.ir.transform import (
    Constant,
    Content,
    Copy,
    Element,
    Function,
    Groups,
    Hole,
    Item,
    OrderKey,
    Source,
    Transform,
    items_of,
)
from twigcast.lang import ast
from twigcast.lang.ast import Expr
from twigcast.lang.flwr import refusals
from twigcast.lang.flwr.constructors import is_attribute
from twigcast.lang.flwr.expressions import ExpressionParser, Variables, bound_node
from twigcast.lang.flwr.paths import FUNCTIONS, Paths
from twigcast.lang.flwr.prolog import Prolog
from twigcast.lang.flwr.scanner import WORD, expression, skip_space
from twigcast.lang.names import Scope

_VARIABLE = re.compile(r"\$(" + WORD.pattern + ")")
# A word before a variable: for or let, perhaps misspelt.
_CLAUSE = re.compile(r"(\w+)\s+\$\w+\s*(?:\w+\s|:=)")
_FLWR = re.compile(r"(?:for|let)\s+\$")
# Names that XQuery reserves for node tests, so that text() is a path and not a call.
_TESTS = frozenset(("text", "node", "comment", "processing-instruction"))


class Clauses(Prolog):
    def __init__(self, source: str, scope: Scope) -> None:
        super().__init__(source, scope)
        self.paths = Paths(source)
        self.variables: dict[str, Expr | Item] = {}
        self.node: str | None = None
        self.bound = "element"
        self.in_order_by = False
        self.clauses: Callable[[Element], Transform] | None = None
        # The syntax trees of the for and where clauses, for those who judge them.
        self.binding_path: ast.LocationPath | None = None
        self.condition: Expr | None = None

    # -- the whole

    def parse(self) -> Transform:
        self.prolog()
        self.space()
        if not self.at_constructor():
            hint = "put a tag around it: <results>{ for $v in //item return $v }</results>"
            if _FLWR.match(self.source, self.at):
                raise self.refuse("no-outer-element", "a FLWR expression needs an element around it", self.here(), hint)
            raise self.wanted("an element around a FLWR expression", hint)
        start = self.at
        outer = self.element()
        if self.clauses is None:
            raise self.refuse(
                "no-flwr",
                "there is no FLWR expression in this element",
                Span(start, start + 1),
                "put one in braces: { for $v in //item return $v }",
            )
        self.space()
        if self.at < len(self.source):
            raise self.wanted("the end of the query", "one subscription is one element")
        return self.clauses(outer)

    # -- braces

    def enclosed(self) -> list[Content]:
        """What stands in braces in an element: the FLWR expression itself, or a hole."""
        opened = self.at
        self.space()
        if self.node is None and _FLWR.match(self.source, self.at):
            if self.clauses is not None:
                raise self.refuse(
                    "second-flwr",
                    "there is a second FLWR expression",
                    self.here(),
                    "one per subscription; make two subscriptions of it",
                )
            self.flwr()
            self.close_brace(opened - 1)
            return [Groups()]
        clause = _CLAUSE.match(self.source, self.at)
        if self.node is None and clause is not None and misspelt(clause[1], ("for", "let")):
            raise self.wanted("'for' or 'let'")
        self.at = opened
        return [self.hole(in_value=False)]

    def hole(self, *, in_value: bool) -> Hole:
        start = self.at - 1
        self.space()
        if self.starts("}"):
            raise self.refuse("empty-hole", "there is nothing in these braces", Span(start, self.at + 1))
        items = self.sequence(in_value)
        self.close_brace(start)
        if self.node is None and any(not isinstance(one, Constant) for one in items_of(tuple(items))):
            raise self.refuse(
                "outside-flwr",
                "only constants can stand outside the FLWR expression",
                Span(start, start + 1),
                "move it into the return clause",
            )
        return Hole(tuple(items))

    def close_brace(self, start: int) -> None:
        self.space()
        if self.at >= len(self.source):
            raise self.open_brace(start)
        if not self.starts("}"):
            found = WORD.match(self.source, self.at)
            hint = refusals.CLAUSES.get(found[0]) if found else None
            if self.source[self.at] in "+-*=<>!|":
                hint = "no arithmetic and no comparisons in braces; a condition belongs in the where clause"
            raise self.wanted("'}'", hint)
        self.at += 1

    def sequence(self, in_value: bool) -> list[Item | Element]:
        items = self.items(in_value)
        self.space()
        while self.starts(","):
            self.at += 1
            items += self.items(in_value)
            self.space()
        return items

    def items(self, in_value: bool) -> list[Item | Element]:
        """One member of a sequence: an element, an item, or a sequence in parentheses."""
        self.space()
        self.refuse_keywords()
        if self.at_constructor():
            if in_value:
                raise self.refuse(
                    "element-in-value", "an attribute value cannot hold an element", self.here(), "use a path"
                )
            return [self.element()]
        if self.starts("("):
            return self.parenthesised(in_value)
        return [self.item()]

    def parenthesised(self, in_value: bool) -> list[Item | Element]:
        start = self.at
        self.nested += 1
        if self.nested > 50:
            raise self.refuse("too-deep", "too many nested parentheses", self.here())
        self.at += 1
        self.space()
        if self.starts(")"):
            raise self.refuse("empty-sequence", "there is nothing in these parentheses", Span(start, self.at + 1))
        items = self.sequence(in_value)
        self.space()
        if not self.starts(")"):
            raise self.refuse("missing-bracket", "this '(' is never closed", Span(start, start + 1), "add ')'")
        self.at += 1
        self.nested -= 1
        after = skip_space(self.source, self.at)
        if self.source[after : after + 1] in ("[", "/"):
            raise self.refuse(
                "parenthesised-path",
                "a path cannot filter a parenthesised path or start from one",
                Span(start, after + 1),
                "put the predicate on a step; string() already takes the first node",
            )
        return items

    def refuse_keywords(self) -> None:
        found = WORD.match(self.source, self.at)
        if found is None or found[0] not in refusals.EXPRESSIONS:
            return
        follows, what, hint = refusals.EXPRESSIONS[found[0]]
        if re.compile(follows).match(self.source, found.end()):
            raise self.refuse("unsupported", f"{what} is not supported here", Span(*found.span()), hint)

    # -- items

    def item(self) -> Item:
        self.space()
        found = _VARIABLE.match(self.source, self.at)
        if found is not None:
            value = self.variables.get(found[1])
            after = skip_space(self.source, found.end())
            if isinstance(value, Copy | Constant | Function) and self.source[after : after + 1] in ("}", ",", ")", ""):
                self.at = found.end()
                return value
        name = WORD.match(self.source, self.at)
        if name is not None and name[0] not in _TESTS:
            opening = skip_space(self.source, name.end())
            if self.source.startswith("(", opening):
                known = name[0] in FUNCTIONS or (name[0] == "number" and self.in_order_by)
                if known:
                    return self.function(name[0], name.start(), opening)
                if name[0] in refusals.FUNCTIONS:
                    raise self.refuse(
                        "function",
                        f"{name[0]}() is not supported here",
                        Span(*name.span()),
                        refusals.FUNCTIONS[name[0]],
                    )
        return self.paths.item(self.expression(top=False), self.bound)

    def function(self, name: str, start: int, opening: int) -> Item:
        self.nested += 1
        if self.nested > 50:
            raise self.refuse("too-deep", "too many nested functions", Span(start, start + len(name)))
        self.at = opening + 1
        self.space()
        arguments: list[Item] = []
        if not self.starts(")"):
            arguments.append(self.item())
            self.space()
            while self.starts(","):
                self.at += 1
                arguments.append(self.item())
                self.space()
            if not self.starts(")"):
                raise self.wanted("',' or ')'")
        self.at += 1
        self.nested -= 1
        return self.paths.function(name, tuple(arguments), Span(start, self.at))

    def expression(self, *, top: bool) -> Expr:
        tokens = expression(self.source, self.at)
        bound = {
            name: None if isinstance(value, Copy | Constant | Function) else value
            for name, value in self.variables.items()
        }
        parser = ExpressionParser(self.source, tokens, self.scope, Variables(bound, self.node), top=top)
        made = parser.parse()
        self.at = tokens[-1].end
        if parser.sources:
            self.sources += parser.sources
        return made

    # -- clauses

    def flwr(self) -> None:
        scope = self.scope
        self.sources: list[tuple[str, str]] = []
        while self.word("let"):
            self.let(top=True)
        self.need_word("for")
        variable = self.variable()
        if self.word("at"):
            raise self.refuse("position", "'at' is not supported", self.here(), "count in a predicate: //item[2]")
        if self.word("as"):
            raise self.refuse("type", "types are not supported", self.here(), "leave 'as ...' away")
        self.need_word("in")
        bound = self.expression(top=True)
        binding = self.paths.binding(bound)
        self.binding_path = bound if isinstance(bound, ast.LocationPath) else None
        if len(set(self.sources)) > 1:
            raise self.refuse("second-source", "there are two sources", self.here(), "a transform sees one message")
        self.bound, self.node = binding.kind, variable
        self.variables[variable] = bound_node(self.here())
        self.second_variable()
        while self.word("let"):
            self.let(top=False)
        self.later_clauses()
        where = None
        if self.word("where"):
            self.space()
            self.refuse_keywords()
            self.condition = self.expression(top=False)
            where = self.paths.condition(self.condition)
        self.later_clauses()
        order = self.order_by()
        self.later_clauses()
        self.space()
        if not self.word("return"):
            raise self.wanted("'return'" if order else "'where', 'order by' or 'return'")
        self.space()
        if self.starts("{"):
            raise self.wanted("an element or a path", "braces stand inside an element: return <item>{ ... }</item>")
        result = tuple(self.items(in_value=False))
        if any(map(is_attribute, result)):
            raise self.refuse(
                "late-attribute",
                "an attribute needs an element to stand on",
                self.here(),
                "put an element around it: return <item>{ $v/@id }</item>",
            )
        self.scope, self.node = scope, None
        source = Source(*self.sources[0]) if self.sources else Source()
        reasons = tuple(dict.fromkeys(self.paths.reasons))
        self.clauses = lambda outer: Transform(outer, source, variable, binding, where, order, result, reasons)

    def variable(self) -> str:
        self.space()
        found = _VARIABLE.match(self.source, self.at)
        if found is None:
            raise self.wanted("a variable such as $v")
        self.at = found.end()
        if found[1] in self.variables:
            raise self.refuse(
                "bound-twice", f"${found[1]} is bound already", Span(*found.span()), "choose another name"
            )
        return found[1]

    def let(self, *, top: bool) -> None:
        while True:
            name = self.variable()
            self.need(":=")
            self.space()
            self.refuse_keywords()
            word = WORD.match(self.source, self.at)
            special = word is not None and word[0] in ("min", "max", "avg") and not top
            self.variables[name] = self.item() if special else self.let_value(top)
            self.space()
            if not self.starts(","):
                return
            self.at += 1

    def let_value(self, top: bool) -> Expr:
        start = self.at
        value = self.expression(top=top)
        if top and not (isinstance(value, ast.LocationPath) and value.absolute):
            raise self.refuse(
                "let-before-for",
                "a let clause before the for clause can only name the message or a path in it",
                Span(start, self.at),
                "put it after the for clause",
            )
        return value

    def second_variable(self) -> None:
        self.space()
        if self.starts(","):
            raise self.refuse(
                "second-variable", "a second variable is not supported", self.here(), refusals.CLAUSES["for"]
            )

    def later_clauses(self) -> None:
        self.space()
        found = WORD.match(self.source, self.at)
        if found is not None and found[0] in refusals.CLAUSES:
            raise self.refuse(
                "unsupported",
                f"'{found[0]}' is not supported here",
                Span(*found.span()),
                refusals.CLAUSES[found[0]],
            )

    def order_by(self) -> tuple[OrderKey, ...]:
        stable = self.word("stable")
        if not self.word("order"):
            if stable:
                raise self.wanted("'order by'")
            return ()
        self.need_word("by")
        keys: list[OrderKey] = []
        self.in_order_by = True
        while True:
            self.space()
            start = self.at
            self.refuse_keywords()
            value = self.item()
            if isinstance(value, Constant):
                raise self.refuse("constant-key", "a constant orders nothing", Span(start, self.at))
            descending = self.word("descending")
            if not descending:
                self.word("ascending")
            greatest = False
            if self.word("empty"):
                greatest = self.word("greatest")
                if not greatest:
                    self.need_word("least")
            if self.word("collation"):
                raise self.refuse(
                    "collation", "collations are not supported", self.here(), refusals.CLAUSES["collation"]
                )
            keys.append(OrderKey(value, descending, greatest))
            self.space()
            if not self.starts(","):
                break
            self.at += 1
        self.in_order_by = False
        return tuple(keys)
