"""The parser of XSCL: SELECT, FROM with its blocks and links, PUBLISH."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from twigcast.common.text import misspelt
from twigcast.errors import QueryError, Span
from twigcast.ir.correlation import (
    FOLLOWED,
    JOIN,
    Block,
    Correlation,
    JoinPredicate,
    Link,
    Ref,
    template_paths,
    with_refs,
)
from twigcast.ir.transform import Element
from twigcast.lang import ast
from twigcast.lang.flwr.scanner import SPACE, skip_space
from twigcast.lang.lexer import NCNAME, NameRegex, bad_character
from twigcast.lang.names import Scope
from twigcast.lang.never import depends_on_constants, never
from twigcast.lang.never_words import Never
from twigcast.lang.single_values import ANY, DOCUMENT
from twigcast.lang.xscl.blocks import BlockDraft, BlockParser
from twigcast.lang.xscl.drafts import Draft, path_of
from twigcast.lang.xscl.joins import FLIPPED, JoinParser
from twigcast.lang.xscl.normal import normalize
from twigcast.lang.xscl.scanner import misspelt_clause, scan
from twigcast.lang.xscl.select import SelectParser, resolver
from twigcast.lang.xscl.windows import window

MAX_BLOCKS = 16
# Of a whole query: who looks for what queries have in common compares graphs of these.
MAX_PREDICATES = 64
MAX_VARIABLES = 128
_WORD = NameRegex(NCNAME)
_KEYWORD = re.compile("[A-Z]{2,}")
_Comparison = tuple[Draft, str, Draft, Span]


class XsclParser:
    def __init__(self, source: str, scope: Scope, windows: Mapping[str, str] | None) -> None:
        self.source = source
        self.scope = scope
        self.windows = windows
        self.at = 0
        self.blocks: list[BlockDraft] = []
        self.variables: dict[str, Draft] = {}
        self.block_of: dict[int, int] = {}
        self.links: list[tuple[str, list[_Comparison], int | None]] = []
        self.never: list[Never] = []
        """Reasons why no messages can match; the query is a query nevertheless."""
        self.depends_on_constants = False
        """Whether there may be others for other constants."""

    # -- words and errors

    def error(self, code: str, text: str, span: Span, hint: str | None = None) -> QueryError:
        return QueryError(code, text, hint=hint, source=self.source, span=span)

    def wanted(self, what: str, hint: str | None = None) -> QueryError:
        rest = self.source[self.at : self.at + 40].split()
        if not rest:
            end = len(self.source.rstrip())
            return self.error("unexpected-end", f"the query ends where {what} has to follow", Span(end, end + 1), hint)
        word = rest[0][:20]
        found = _WORD.match(self.source, self.at)
        near = misspelt(found[0], _KEYWORD.findall(what)) if found else None
        if found is not None and near is not None:
            word = found[0]
            hint = f"did you mean {'FOLLOWED BY' if near == 'FOLLOWED' else near}?"
        span = Span(self.at, self.at + len(word))
        return self.error("unexpected-token", f"found {word!r} where {what} should be", span, hint)

    def space(self) -> None:
        self.at = skip_space(self.source, self.at)

    def peek(self) -> str:
        """The next word in capitals; empty if there is none."""
        self.space()
        found = _WORD.match(self.source, self.at)
        return found[0].upper() if found else ""

    def word(self, text: str) -> bool:
        if self.peek() != text:
            return False
        self.at += len(text)
        return True

    def starts(self, text: str) -> bool:
        return self.source.startswith(text, self.at)

    # -- the whole

    def parse(self) -> Correlation:
        select_at = None
        if self.word("SELECT"):
            select_at = self.at
            # Variables are bound in FROM: read once to know where that is, and again when they are known.
            first = SelectParser(self.source, self.scope, self.at, lambda name, span: (Ref(0, 0), "element"))
            first.select()
            self.at = first.at
            if not self.word("FROM"):
                raise self.wanted("FROM")
        elif self.word("FROM"):
            pass
        elif misspelt_clause(self.source):
            raise self.wanted("SELECT or FROM")
        elif self.peek() == "" and self.at >= len(self.source):
            raise self.error("empty-query", "the query is empty", Span(0, 1), "write two blocks tied by JOIN{...}")
        self.chain()
        publish = self.publish() if self.word("PUBLISH") else None
        self.space()
        if self.at < len(self.source):
            if self.starts(")"):
                raise self.error("missing-bracket", "this ')' closes nothing", Span(self.at, self.at + 1))
            raise self.wanted("JOIN, FOLLOWED BY, PUBLISH, or the end of the query")
        return self.finish(self.select(select_at), publish)

    def select(self, at: int | None) -> Element | None:
        if at is None:
            return None
        names = list(self.variables.items())
        kinds = {name: (Ref(-1, number), _kind(draft)) for number, (name, draft) in enumerate(names)}
        made = SelectParser(self.source, self.scope, at, resolver(self.source, kinds)).select()
        if made is not None:
            for path in template_paths(made):
                names[path.ref.variable][1].needed = True
        return made

    def publish(self) -> str:
        self.space()
        found = _WORD.match(self.source, self.at)
        if found is None:
            raise self.wanted("the name of a stream", "such as PUBLISH alerts")
        self.at = found.end()
        return found[0]

    # -- FROM

    def chain(self) -> None:
        """Blocks from left to right; parentheses may only say what is so without them."""
        self.space()
        start, opened = self.at, 0
        while self.starts("("):
            opened += 1
            self.at += 1
            self.space()
        self.block()
        while True:
            self.space()
            if opened and self.starts(")"):
                opened -= 1
                self.at += 1
                continue
            kind = self.link()
            if kind is None:
                break
            comparisons_at = self.braces()
            self.space()
            if self.starts("("):
                raise self.error(
                    "right-deep",
                    "what follows a join is one block",
                    Span(self.at, self.at + 1),
                    "leave the parentheses away: A JOIN{...} B JOIN{...} C joins A and B first",
                )
            self.block()
            self.join(kind, *comparisons_at)
        if opened:
            raise self.error("missing-bracket", "this '(' is never closed", Span(start, start + 1), "add ')'")

    def link(self) -> str | None:
        word = self.peek()
        if word == "JOIN":
            self.at += 4
            return JOIN
        if word == "FOLLOWED":
            self.at += 8
            if not self.word("BY"):
                raise self.wanted("BY")
            return FOLLOWED
        return None

    def block(self) -> None:
        self.space()
        if len(self.blocks) >= MAX_BLOCKS:
            raise self.error("too-many-blocks", f"more than {MAX_BLOCKS} blocks", Span(self.at, self.at + 1))
        tokens = scan(self.source, self.at)
        block = BlockParser(self.source, self.scope, tokens).block()
        self.at = tokens[-1].end
        number = len(self.blocks)
        self.blocks.append(block)
        stack = [block.first]
        while stack:
            draft = stack.pop()
            self.block_of[id(draft)] = number
            if draft.name in self.variables:
                raise self.error("bound-twice", f"{draft.name} is bound already", draft.span, "choose another name")
            if draft.name:
                self.variables[draft.name] = draft
            stack += reversed(draft.children)

    def braces(self) -> tuple[int, Span, Span]:
        """Where the braces of a link start, its predicate, and its window."""
        self.space()
        start = self.at
        if not self.starts("{"):
            raise self.wanted("'{'", "a join says what to compare and for how long: JOIN{$x = $y, 5 min}")
        end, comma = _closing(self.source, start)
        if end is None:
            raise self.error("missing-bracket", "this '{' is never closed", Span(start, start + 1), "add '}'")
        self.at = end + 1
        if comma is None:
            raise self.error(
                "no-window", "this join has no window", Span(end, end + 1), "end it with ', 5 min}', or ', INF}'"
            )
        return start, _stripped(self.source, start + 1, comma), _stripped(self.source, comma + 1, end)

    def join(self, kind: str, start: int, predicate: Span, lasting: Span) -> None:
        if predicate.start >= predicate.end:
            raise self.error(
                "no-predicate", "this join compares nothing", Span(start, start + 1), "such as {$x = $y, 5}"
            )
        tokens = scan(self.source, predicate.start)
        parser = JoinParser(self.source, self.scope, tokens, self.variables)
        comparisons = parser.conjunction()
        if tokens[-1].end != predicate.end:
            self.at = skip_space(self.source, tokens[-1].end)
            raise self.wanted("AND, or ',' and a window", "such as {$x = $y AND $x != $z, 5 min}")
        number = len(self.blocks) - 1
        if len(comparisons) + sum(len(tied) for _, tied, _ in self.links) > MAX_PREDICATES:
            raise self.error("too-long", f"more than {MAX_PREDICATES} comparisons", predicate, "split the query")
        tied: list[_Comparison] = []
        for left, op, right, span in comparisons:
            for draft in (left, right):
                # Paths in predicates are variables that came just now.
                above = draft
                while id(above) not in self.block_of and above.parent is not None:
                    above = above.parent
                self.block_of[id(draft)] = self.block_of[id(above)]
            of_left, of_right = self.block_of[id(left)], self.block_of[id(right)]
            if of_left == of_right:
                raise self.error(
                    "same-block", "this compares two nodes of one message", span, "a join compares two blocks"
                )
            if number not in (of_left, of_right):
                hint = "move it to the join that adds the later one of the two"
                raise self.error("earlier-blocks", "this compares two blocks that are joined already", span, hint)
            tied.append((left, op, right, span) if of_right == number else (right, FLIPPED[op], left, span))
        if not tied:
            raise self.error(
                "no-predicate", "this join compares constants only", predicate, "compare a variable of each side"
            )
        if lasting.start >= lasting.end:
            raise self.error("no-window", "this join has no window", Span(start, start + 1), "end it with ', 5 min}'")
        length = window(self.source, lasting, self.windows)
        if kind == FOLLOWED and length == 0:
            hint = "write a longer window, or JOIN for messages of the same time"
            self.never.append(Never("what follows comes later, and the window is 0", lasting, hint))
        if _exclude_each_other(tied):
            hint = "a comparison of two variables is about one pair of nodes; remove one of them"
            self.never.append(Never("these comparisons exclude each other", predicate, hint))
        self.links.append((kind, tied, length))

    # -- the result

    def finish(self, select: Element | None, publish: str | None) -> Correlation:
        if select is None:
            for one in self.blocks:
                one.root.needed = True
        blocks: list[Block] = []
        refs: dict[int, Ref] = {}
        for at, draft in enumerate(self.blocks):
            impossible = list(self._impossible_paths(draft.first))
            self.never += impossible
            try:
                block, numbers = normalize(self.source, draft)
            except QueryError as error:
                if impossible and error.code == "not-a-pattern":  # a path that finds nothing is none either
                    raise impossible[0].error(self.source) from error
                raise
            blocks.append(block)
            refs |= {one: Ref(at, number) for one, number in numbers.items()}
        if sum(len(block.variables) for block in blocks) > MAX_VARIABLES:
            span = Span(0, len(self.source))
            raise self.error("too-long", f"more than {MAX_VARIABLES} variables", span, "split the query")
        links = [
            Link(
                kind,
                tuple(dict.fromkeys(JoinPredicate(refs[id(left)], op, refs[id(right)]) for left, op, right, _ in tied)),
                length,
            )
            for kind, tied, length in self.links
        ]
        if select is not None:
            drafts = list(self.variables.values())
            select = with_refs(select, lambda ref: refs[id(drafts[ref.variable])])
        return Correlation(tuple(blocks), tuple(links), select, publish)

    def _impossible_paths(self, first: Draft) -> Iterator[Never]:
        """Yield why variables of a block can never be bound."""
        stack = [first]
        while stack:
            draft = stack.pop()
            if draft.steps:
                path = path_of(draft.steps, draft.span, absolute=draft.parent is None)
                found = never(path, DOCUMENT if draft.parent is None else ANY)
                if found is not None:
                    yield found
                self.depends_on_constants |= depends_on_constants(path)
            stack += reversed(draft.children)


# How two values may compare: whether they are equal strings, and how their numbers compare (None: one is not a number).
_RELATIONS = [(same, sign) for same in (True, False) for sign in (-1, 0, 1, None) if not (same and sign in (-1, 1))]
_HOLDS: dict[str, Callable[[bool, int | None], bool]] = {
    "=": lambda same, sign: same,
    "!=": lambda same, sign: not same,
    "<": lambda same, sign: sign == -1,
    "<=": lambda same, sign: sign in (-1, 0),
    ">": lambda same, sign: sign == 1,
    ">=": lambda same, sign: sign in (0, 1),
}


def _exclude_each_other(tied: list[_Comparison]) -> bool:
    """Tell whether no two values pass all the comparisons of some pair of variables."""
    pairs: dict[tuple[int, int], list[str]] = {}
    for left, op, right, _ in tied:
        pairs.setdefault((id(left), id(right)), []).append(op)
    return any(not any(all(_HOLDS[op](*one) for op in ops) for one in _RELATIONS) for ops in pairs.values())


def _kind(draft: Draft) -> str:
    if not draft.steps:
        return "document"
    last = draft.steps[-1]
    if last.axis == "attribute":
        return "attribute"
    if isinstance(last.test, ast.KindTest):
        return {"processing-instruction": "pi"}.get(last.test.kind, last.test.kind)
    return "element"


def _closing(source: str, start: int) -> tuple[int | None, int | None]:
    """The brace that closes the one at ``start``, and the last comma directly inside; names such as ``{uri}x`` and
    strings are passed over. A quote right after a name is a prime of it."""
    at, depth, brackets, comma = start + 1, 0, 0, None
    while at < len(source):
        char = source[at]
        if char == '"' or (char == "'" and not _WORD.match(source, at - 1) and source[at - 1] not in "'0123456789"):
            end = source.find(char, at + 1)
            if end < 0:
                raise bad_character(source, at)
            at = end
        elif char == "{":
            depth += 1
        elif char == "}":
            if depth == 0:
                return at, comma
            depth -= 1
        elif char in "([":
            brackets += 1
        elif char in ")]":
            brackets -= 1
        elif char == "," and depth == 0 and brackets <= 0:
            comma = at
        at += 1
    return None, None


def _stripped(source: str, start: int, end: int) -> Span:
    while start < end and source[start] in SPACE:
        start += 1
    while end > start and source[end - 1] in SPACE:
        end -= 1
    return Span(start, end)
