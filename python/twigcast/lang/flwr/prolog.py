"""The prolog of a query, and the words and strings that clauses are made of."""

from __future__ import annotations

from twigcast.errors import Span
from twigcast.lang.flwr import refusals
from twigcast.lang.flwr.constructors import Constructors
from twigcast.lang.flwr.scanner import WORD, literal, skip_space


class Prolog(Constructors):
    def prolog(self) -> None:
        self.space()
        if self.word("xquery"):
            self.need_word("version")
            self.string("a version in quotes")
            if self.word("encoding"):
                self.string("an encoding in quotes")
            self.semicolon()
        while self.word("declare"):
            start = self.at
            if self.word("namespace"):
                self.space()
                prefix = self.qname("a prefix")
                self.need("=")
                self.declare(prefix, self.string("a namespace in quotes"), start)
            elif self.word("default"):
                if not self.word("element"):
                    raise self.wanted("'element'", "only the default element namespace can be declared")
                self.need_word("namespace")
                self.declare("", self.string("a namespace in quotes"), start)
            elif self.word("boundary-space"):
                if not self.word("strip"):
                    raise self.wanted(
                        "'strip'", "boundary white space is always stripped; write it as &#x20; to keep it"
                    )
            else:
                self.space()
                found = WORD.match(self.source, self.at)
                hint = refusals.PROLOG.get(found[0]) if found else None
                raise self.wanted("'namespace' or 'default element namespace'", hint)
            self.semicolon()
        if self.word("import"):
            raise self.refuse("import", "nothing can be imported", self.here(), "write everything into the query")

    def declare(self, prefix: str, uri: str, start: int) -> None:
        span = Span(start, self.at)
        if ":" in prefix:
            raise self.refuse("bad-namespace", f"{prefix!r} is not a prefix", span)
        if prefix:
            self.check_declaration(prefix, uri, span)
        elif uri:
            self.check_declaration("", uri, span)
        self.scope = self.inside({prefix: uri})

    # -- words

    def word(self, text: str) -> bool:
        """Takes the word if it is next."""
        at = skip_space(self.source, self.at)
        found = WORD.match(self.source, at)
        if found is None or found[0] != text:
            return False
        self.at = found.end()
        return True

    def need_word(self, text: str) -> None:
        if not self.word(text):
            self.space()
            raise self.wanted(f"'{text}'")

    def need(self, text: str) -> None:
        self.space()
        if not self.starts(text):
            raise self.wanted(f"'{text}'")
        self.at += len(text)

    def semicolon(self) -> None:
        self.need(";")

    def string(self, what: str) -> str:
        self.space()
        found = literal(self.source, self.at)
        if found is None:
            raise self.wanted(what)
        self.at = found[1]
        return found[0]
