"""XQuery that transforms do not have, and what to write instead."""

from __future__ import annotations

from twigcast.lang.lexer import NCNAME, NameRegex

KEYWORD = NameRegex(NCNAME)
_NESTED = "one FLWR expression per subscription: put the path itself in braces, { $v/item }"
_NO_IF = "there is no 'if': leave a path that may be empty, or make two subscriptions with a where clause each"

# Keyword -> (pattern that must follow for it to be one, what it is, hint)
EXPRESSIONS: dict[str, tuple[str, str, str]] = {
    "for": (r"\s+\$", "a second 'for'", _NESTED),
    "let": (r"\s+\$", "a nested 'let'", "put the let clause after the for clause"),
    "if": (r"\s*\(", "'if'", _NO_IF),
    "some": (r"\s+\$", "'some ... satisfies'", "a comparison already holds when any node of its path fits"),
    "every": (r"\s+\$", "'every ... satisfies'", "write not($v/path[not(condition)])"),
    "switch": (r"\s*\(", "'switch'", _NO_IF),
    "typeswitch": (r"\s*\(", "'typeswitch'", _NO_IF),
    "try": (r"\s*\{", "'try'", "nothing in a transform fails at run time"),
    "element": (r"\s+\S*\s*\{", "a computed element", "write the tag itself: <name>{ ... }</name>"),
    "attribute": (r"\s+\S*\s*\{", "a computed attribute", 'write it in the tag: <e name="{ ... }">'),
    "text": (r"\s*\{", "a computed text node", "write the text, or { string($v/path) }"),
    "comment": (r"\s*\{", "a computed comment", "write <!-- ... -->"),
    "document": (r"\s*\{", "a computed document", "the outer element is the document's root"),
    "validate": (r"\s*(?:\{|lax|strict)", "'validate'", "register a schema with the publisher instead"),
    "unordered": (r"\s*\{", "'unordered'", "leave it away"),
    "ordered": (r"\s*\{", "'ordered'", "leave it away"),
    "function": (r"\s*\(", "a function", "transforms have no functions of their own"),
}

CLAUSES: dict[str, str] = {
    "group": "there is no 'group by'; each binding node is one group",
    "count": "there is no count clause; positions are counted in predicates",
    "for": "one variable per subscription; paths from it may go anywhere below",
    "window": "windows belong to correlations",
    "collation": "strings are ordered by code point",
}

PROLOG: dict[str, str] = {
    "function": "transforms have no functions of their own; write the paths out",
    "variable": "use 'let' after the for clause",
    "option": "leave it away",
    "construction": "leave it away",
    "ordering": "leave it away; results are ordered",
    "copy-namespaces": "leave it away; copies keep their namespaces",
    "base-uri": "leave it away; nothing is fetched",
    "collation": "leave it away; strings are ordered by code point",
    "decimal-format": "leave it away",
    "context": "leave it away; the message is the context",
    "%private": "leave it away",
}

FUNCTIONS: dict[str, str] = {
    "distinct-values": "each node comes once already; equal values are kept",
    "data": "write string($v/path)",
    "exists": "write the path itself: a path is true when it selects something",
    "empty": "write not($v/path)",
    "string-join": "in an attribute value the strings of a path are joined by a space; else write concat()",
    "exactly-one": "leave it away: functions take the first node",
    "zero-or-one": "leave it away: functions take the first node",
    "one-or-more": "leave it away",
    "number": "a number is put out as it is written: string($v/path)",
}
