"""Direct element constructors of XQuery (3.9.1): constant tags with holes in braces."""

from __future__ import annotations

import re

from twigcast.common.text import misspelt
from twigcast.errors import OptionError, QueryError, Span
from twigcast.ir.transform import Attribute, Comment, Content, Copy, Element, Hole, Instruction, Item, Name
from twigcast.ir.visit import replace
from twigcast.lang.flwr.scanner import QNAME, SPACE, WORD, expression, reference, skip_space
from twigcast.lang.names import XML_NAMESPACE, Scope

MAX_NESTED = 50
_NAME_START = re.compile(WORD.pattern[: WORD.pattern.index("]") + 1])
_QUOTED = re.compile("'([a-z]+)")
_XMLNS = "http://www.w3.org/2000/xmlns/"


class Constructors:
    """The text and a place in it. ``scope`` are the namespaces where that place is: constructors declare more."""

    def __init__(self, source: str, scope: Scope) -> None:
        self.source = source
        self.scope = scope
        self.at = 0
        self.nested = 0

    def refuse(self, code: str, text: str, span: Span, hint: str | None = None) -> QueryError:
        return QueryError(code, text, hint=hint, source=self.source, span=span)

    def wanted(self, what: str, hint: str | None = None) -> QueryError:
        rest = self.source[self.at : self.at + 40].split()
        if not rest:
            return self.refuse("unexpected-end", f"the query ends where {what} has to follow", self.here(), hint)
        word = rest[0][:20]
        span = Span(self.at, self.at + len(word))
        near = misspelt(word, _QUOTED.findall(what))
        if near is not None:
            hint = f"did you mean {near!r}?"
        return self.refuse("unexpected-token", f"found {word!r} where {what} should be", span, hint)

    def here(self) -> Span:
        return Span(self.at, self.at + 1)

    def space(self) -> None:
        self.at = skip_space(self.source, self.at)

    def starts(self, text: str) -> bool:
        return self.source.startswith(text, self.at)

    def at_constructor(self) -> bool:
        return self.starts("<") and _NAME_START.match(self.source, self.at + 1) is not None

    # -- elements

    def element(self) -> Element:
        """``<name ...>...</name>``; the place is at its ``<``."""
        start = self.at
        self.nested += 1
        if self.nested > MAX_NESTED:
            raise self.refuse("too-deep", f"elements are nested more than {MAX_NESTED} levels deep", self.here())
        self.at += 1
        name = self.qname("an element name")
        span = Span(start + 1, self.at)
        written = self.attributes(name)
        outside = self.scope
        declared, plain = self.declared(written)
        self.scope = self.inside(declared)
        made = Element(self.resolved(name, span, attribute=False), tuple(declared.items()))
        made = replace(made, attributes=self.values(plain))
        if self.starts("/>"):
            self.at += 2
        else:
            self.at += 1
            made = replace(made, content=self.content(name, span))
        self.attributes_first(made.content)
        self.scope = outside
        self.nested -= 1
        return made

    def qname(self, what: str) -> str:
        found = QNAME.match(self.source, self.at)
        if found is None:
            raise self.wanted(what)
        self.at = found.end()
        return found[0]

    def attributes(self, element: str) -> list[tuple[str, int, int, int]]:
        """Name, its place, and the place and end of the value inside its quotes, for each attribute of a start tag."""
        found: list[tuple[str, int, int, int]] = []
        while True:
            before = self.at
            self.blank()
            if self.starts(">") or self.starts("/>"):
                return found
            if self.at >= len(self.source):
                raise self.refuse(
                    "unclosed-tag", f"the tag <{element} is never closed", Span(before, before + 1), "end it with '>'"
                )
            if before == self.at:
                raise self.wanted("white space, '>' or '/>'")
            start = self.at
            name = self.qname("an attribute, '>' or '/>'")
            self.blank()
            if not self.starts("="):
                raise self.wanted(f"'=' after {name!r}")
            self.at += 1
            self.blank()
            if self.at >= len(self.source) or self.source[self.at] not in "\"'":
                raise self.wanted("a value in quotes", 'a value is quoted also when it is computed: a="{ $v/@b }"')
            value = self.at + 1
            self.at = self.value_end(self.at)
            found.append((name, start, value, self.at))
            self.at += 1

    def blank(self) -> None:
        while self.at < len(self.source) and self.source[self.at] in SPACE:
            self.at += 1

    def value_end(self, start: int) -> int:
        """Where the value opened by the quote at ``start`` ends; quotes inside braces do not end it."""
        quote, at, source = self.source[start], start + 1, self.source
        while at < len(source):
            char = source[at]
            if char == quote:
                if not source.startswith(quote, at + 1):
                    return at
                at += 2
            elif source.startswith(("{{", "}}"), at):
                at += 2
            elif char == "{":
                at = self.braces_end(at)
            else:
                at += 1
        raise self.refuse(
            "unterminated-literal", "this value has no closing quote", Span(start, start + 1), f"add {quote} at its end"
        )

    def braces_end(self, start: int) -> int:
        at = start + 1
        while True:
            at = expression(self.source, at)[-1].end
            at = skip_space(self.source, at)
            if at >= len(self.source):
                raise self.open_brace(start)
            if self.source[at] == "}":
                return at + 1
            if self.source[at] in "<{":
                raise self.refuse(
                    "element-in-value", "an attribute value cannot hold an element", Span(at, at + 1), "use a path"
                )
            found = WORD.match(self.source, at)
            at = found.end() if found else at + 1

    def open_brace(self, start: int) -> QueryError:
        return self.refuse("missing-bracket", "this '{' is never closed", Span(start, start + 1), "add '}'")

    # -- namespaces

    def declared(
        self, written: list[tuple[str, int, int, int]]
    ) -> tuple[dict[str, str], list[tuple[str, int, int, int]]]:
        declared: dict[str, str] = {}
        plain: list[tuple[str, int, int, int]] = []
        for name, start, value, end in written:
            if name != "xmlns" and not name.startswith("xmlns:"):
                plain.append((name, start, value, end))
                continue
            prefix = name[6:]
            span = Span(start, end + 1)
            parts = self.value(value, end)
            if any(not isinstance(part, str) for part in parts):
                raise self.refuse("computed-namespace", "a namespace has to be constant", span)
            uri = " ".join("".join(map(str, parts)).split())
            self.check_declaration(prefix, uri, span)
            if prefix in declared:
                raise self.refuse("declared-twice", f"{name!r} is declared twice", span)
            declared[prefix] = uri
        return declared, plain

    def check_declaration(self, prefix: str, uri: str, span: Span) -> None:
        if prefix and not uri:
            raise self.refuse("bad-namespace", "a prefix cannot be undeclared", span)
        if prefix == "xmlns" or uri == _XMLNS or (prefix == "xml") != (uri == XML_NAMESPACE):
            raise self.refuse("bad-namespace", f"{prefix or 'the default'!r} cannot be bound to {uri!r}", span)
        try:
            Scope({prefix: uri} if prefix else {}, "" if prefix else uri)
        except OptionError as error:
            raise self.refuse(error.code, error.text, span, error.hint) from None

    def inside(self, declared: dict[str, str]) -> Scope:
        if not declared:
            return self.scope
        prefixes = {prefix: uri for prefix, uri in declared.items() if prefix}
        return Scope({**self.scope.namespaces, **prefixes}, declared.get("", self.scope.default))

    def resolved(self, name: str, span: Span, *, attribute: bool) -> Name:
        ns, local = self.scope.resolve(name, span, self.source, attribute=attribute)
        return Name(ns, local, name.rpartition(":")[0])

    # -- attribute values

    def values(self, plain: list[tuple[str, int, int, int]]) -> tuple[Attribute, ...]:
        after = self.at
        made: dict[tuple[str, str], Attribute] = {}
        for written, start, value, end in plain:
            span = Span(start, start + len(written))
            name = self.resolved(written, span, attribute=True)
            if (name.ns, name.local) in made:
                raise self.refuse("attribute-twice", f"the attribute {written!r} is there twice", span)
            made[name.ns, name.local] = Attribute(name, self.value(value, end))
        self.at = after
        return tuple(made.values())

    def value(self, at: int, end: int) -> tuple[str | Hole, ...]:
        """The parts of an attribute value; white space in it is normalised, as in XML."""
        source, quote = self.source, self.source[end]
        parts: list[str | Hole] = []
        text: list[str] = []
        while at < end:
            char = source[at]
            if source.startswith(("{{", "}}", quote * 2), at):
                text.append(char)
                at += 2
            elif char == "{":
                if text:
                    parts.append("".join(text))
                    text = []
                self.at = at + 1
                parts.append(self.hole(in_value=True))
                at = self.at
            elif char == "}":
                raise self.refuse("stray-brace", "this '}' closes nothing", Span(at, at + 1), "write }} for a brace")
            elif char == "<":
                raise self.refuse("bad-character", "'<' cannot stand in a value", Span(at, at + 1), "write &lt;")
            elif char == "&":
                char, at = reference(source, at)
                text.append(char)
            else:
                text.append(" " if char in SPACE else char)
                at += 2 if source.startswith("\r\n", at) else 1
        if text:
            parts.append("".join(text))
        return tuple(parts)

    # -- content

    def content(self, name: str, opened: Span) -> tuple[Content, ...]:
        """Up to and with the end tag. White space between tags and braces, and nothing else, is stripped."""
        source = self.source
        made: list[Content] = []
        text: list[str] = []
        kept = False  # whether the text so far is more than white space

        def flush() -> None:
            nonlocal kept
            if text and kept:
                made.append("".join(text))
            text.clear()
            kept = False

        while True:
            if self.at >= len(source):
                raise self.refuse("unclosed-element", f"<{name}> is never closed", opened, f"end it with </{name}>")
            char = source[self.at]
            if source.startswith(("{{", "}}"), self.at):
                text.append(char)
                kept, self.at = True, self.at + 2
            elif char == "{":
                flush()
                self.at += 1
                made += self.enclosed()
            elif char == "}":
                raise self.refuse("stray-brace", "this '}' closes nothing", self.here(), "write }} for a brace")
            elif char == "&":
                char, self.at = reference(source, self.at)
                text.append(char)
                kept = True
            elif char != "<":
                kept = kept or char not in SPACE
                text.append("\n" if char == "\r" else char)
                self.at += 2 if source.startswith("\r\n", self.at) else 1
            elif self.starts("<![CDATA["):
                text.append(self.until("]]>", 9, "CDATA section").replace("\r\n", "\n"))
                kept = True
            elif self.starts("<!--"):
                flush()
                made.append(self.comment())
            elif self.starts("<?"):
                flush()
                made.append(self.instruction())
            elif self.starts("</"):
                flush()
                self.end_tag(name, opened)
                return tuple(_joined(made))
            elif self.at_constructor():
                flush()
                made.append(self.element())
            else:
                raise self.refuse(
                    "bad-character", "'<' begins no tag here", self.here(), "write &lt; for the character"
                )

    def end_tag(self, name: str, opened: Span) -> None:
        start = self.at
        self.at += 2
        closing = self.qname("the name of the element to close")
        if closing != name:
            line = self.source.count("\n", 0, opened.start) + 1
            raise self.refuse(
                "wrong-end-tag",
                f"</{closing}> closes <{name}> of line {line}",
                Span(start, self.at),
                f"write </{name}>",
            )
        self.blank()
        if not self.starts(">"):
            raise self.wanted("'>'")
        self.at += 1

    def until(self, end: str, skip: int, what: str) -> str:
        start = self.at + skip
        found = self.source.find(end, start)
        if found < 0:
            raise self.refuse(
                "unterminated", f"this {what} is never closed", Span(self.at, self.at + skip), f"end it with {end}"
            )
        self.at = found + len(end)
        return self.source[start:found]

    def comment(self) -> Comment:
        start = self.at
        text = self.until("-->", 4, "comment")
        if "--" in text or text.endswith("-"):
            raise self.refuse("bad-comment", "a comment cannot hold '--' or end with '-'", Span(start, start + 4))
        return Comment(text)

    def instruction(self) -> Instruction:
        start = self.at
        body = self.until("?>", 2, "processing instruction")
        found = WORD.match(body)
        if found is None or found[0].lower() == "xml" or body[found.end() : found.end() + 1] not in ("", *SPACE):
            raise self.refuse(
                "bad-instruction", "a processing instruction starts with its name", Span(start, start + 2)
            )
        return Instruction(found[0], body[found.end() :].lstrip(SPACE))

    def attributes_first(self, content: tuple[Content | Item, ...]) -> None:
        """Attributes put into content become attributes of the element; XQuery wants them before all else."""
        other = False
        for part in content:
            for item in part.items if isinstance(part, Hole) else (part,):
                if not is_attribute(item):
                    other = True
                elif other:
                    raise self.refuse(
                        "late-attribute",
                        "an attribute has to come before the other content of its element",
                        Span(max(0, self.at - 1), self.at),
                        "move it to the front, or write string($v/@name) for its value",
                    )

    # -- what the clauses' parser adds

    def hole(self, *, in_value: bool) -> Hole:
        """A sequence in braces; the place is past the ``{`` before, and past the ``}`` after."""
        raise AssertionError("the clauses' parser has it")

    def enclosed(self) -> list[Content]:
        raise AssertionError("the clauses' parser has it")


def is_attribute(item: object) -> bool:
    return isinstance(item, Copy) and item.path.kind == "attribute"


def _joined(content: list[Content]) -> list[Content]:
    made: list[Content] = []
    for part in content:
        if isinstance(part, str) and made and isinstance(made[-1], str):
            made[-1] += part
        else:
            made.append(part)
    return made
