"""Names in queries: prefixes resolve when subscribing, never at match time (SEMANTICS 9)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from twigcast.errors import OptionError, QueryError, Span

XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"


@dataclass(frozen=True, slots=True)
class Scope:
    """The namespaces of a subscription: its prefixes, and what an unprefixed element name means."""

    namespaces: Mapping[str, str] = field(default_factory=dict)
    default: str = ""

    def __post_init__(self) -> None:
        if "" in self.namespaces or None in self.namespaces:
            raise OptionError(
                "bad-namespace",
                "the empty prefix cannot be declared: in XPath 1.0 an unprefixed name is in no namespace",
                hint="set the default element namespace instead",
            )
        for uri in (*self.namespaces.values(), self.default):
            if not isinstance(uri, str) or "{" in uri or "}" in uri:
                raise OptionError(
                    "bad-namespace", f"{uri!r} is not a namespace", hint="a URI is a string without braces"
                )

    def resolve(self, name: str, span: Span, source: str, *, attribute: bool) -> tuple[str, str]:
        """``prefix:local``, ``{uri}local`` or ``local`` as (URI, local); an attribute never takes the default."""
        if name.startswith("{"):
            uri, _, local = name[1:].partition("}")
            return uri, local
        prefix, colon, local = name.rpartition(":")
        if not colon:
            return ("" if attribute else self.default), local
        if prefix in self.namespaces:
            return self.namespaces[prefix], local
        if prefix == "xml":
            return XML_NAMESPACE, local
        close = difflib.get_close_matches(prefix, self.namespaces, 1)
        raise QueryError(
            "undeclared-prefix",
            f"the prefix {prefix!r} is not declared",
            hint=f"did you mean {close[0]!r}?"
            if close
            else f"declare it: namespaces={{{prefix!r}: 'http://...'}}, or write {{uri}}{local}",
            source=source,
            span=Span(span.start, span.start + len(prefix)),
        )
