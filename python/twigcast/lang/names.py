"""Names in queries: prefixes resolve when subscribing, never at match time (SEMANTICS 9)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from twigcast.errors import OptionError, QueryError, Span
from twigcast.lang.lexer import NCNAME, NameRegex

XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"


_NCNAME = NameRegex(NCNAME)


def check_namespaces(namespaces: Any, default: Any = None) -> None:
    """Raises OptionError for what is no table of prefixes, or no default element namespace."""
    if namespaces is None:
        namespaces = {}
    if not isinstance(namespaces, Mapping):
        text = f"namespaces map prefixes to URIs; {type(namespaces).__name__} does not"
        raise OptionError("bad-namespace", text, hint="such as {'p': 'http://…'}")
    for prefix, uri in namespaces.items():
        if prefix is None or prefix == "":
            raise OptionError(
                "bad-namespace",
                "the empty prefix cannot be declared: in XPath 1.0 an unprefixed name is in no namespace",
                hint="set the default element namespace instead",
            )
        if not isinstance(prefix, str) or not _NCNAME.fullmatch(prefix):
            hint = "a prefix is a name without ':'"
            raise OptionError("bad-namespace", f"{prefix!r} is not a prefix", hint=hint)
        if prefix == "xmlns" or (prefix == "xml" and uri != XML_NAMESPACE):
            hint = f"xml always means {XML_NAMESPACE}, and xmlns nothing"
            raise OptionError("bad-namespace", f"the prefix {prefix!r} cannot be declared", hint=hint)
    for uri in (*namespaces.values(), default or ""):
        if not isinstance(uri, str) or "{" in uri or "}" in uri:
            raise OptionError("bad-namespace", f"{uri!r} is not a namespace", hint="a URI is a string without braces")
        if not uri.isascii() and any("\ud800" <= c <= "\udfff" for c in uri):
            raise OptionError("bad-namespace", f"{uri!r} is not a namespace", hint="half a surrogate pair is no text")


@dataclass(frozen=True, slots=True)
class Scope:
    """The namespaces of a subscription: its prefixes, and what an unprefixed element name means."""

    namespaces: Mapping[str, str] = field(default_factory=dict)
    default: str = ""

    def __post_init__(self) -> None:
        check_namespaces(self.namespaces, self.default)

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
        declare = f"--ns {prefix}=URI (in Python: namespaces={{{prefix!r}: 'URI'}})"
        raise QueryError(
            "undeclared-prefix",
            f"the prefix {prefix!r} is not declared",
            hint=f"did you mean {close[0]!r}?" if close else f"declare it: {declare}, or write {{uri}}{local}",
            source=source,
            span=Span(span.start, span.start + len(prefix)),
        )
