"""The core function library of XPath 1.0 (section 4), and what to say to those who want another function."""

from __future__ import annotations

from typing import NamedTuple


class Function(NamedTuple):
    """``node_sets`` tells whether every argument has to be a node-set; all other arguments convert (section 3.2)."""

    least: int
    most: int | None
    result: str
    node_sets: bool = False


FUNCTIONS: dict[str, Function] = {
    "last": Function(0, 0, "number"),
    "position": Function(0, 0, "number"),
    "count": Function(1, 1, "number", True),
    "id": Function(1, 1, "node-set"),
    "local-name": Function(0, 1, "string", True),
    "namespace-uri": Function(0, 1, "string", True),
    "name": Function(0, 1, "string", True),
    "string": Function(0, 1, "string"),
    "concat": Function(2, None, "string"),
    "starts-with": Function(2, 2, "boolean"),
    "contains": Function(2, 2, "boolean"),
    "substring-before": Function(2, 2, "string"),
    "substring-after": Function(2, 2, "string"),
    "substring": Function(2, 3, "string"),
    "string-length": Function(0, 1, "number"),
    "normalize-space": Function(0, 1, "string"),
    "translate": Function(3, 3, "string"),
    "boolean": Function(1, 1, "boolean"),
    "not": Function(1, 1, "boolean"),
    "true": Function(0, 0, "boolean"),
    "false": Function(0, 0, "boolean"),
    "lang": Function(1, 1, "boolean"),
    "number": Function(0, 1, "number"),
    "sum": Function(1, 1, "number", True),
    "floor": Function(1, 1, "number"),
    "ceiling": Function(1, 1, "number"),
    "round": Function(1, 1, "number"),
}

LATER_XPATH: dict[str, str] = {
    "matches": "XPath 1.0 has no regular expressions; contains() and starts-with() are there",
    "replace": "XPath 1.0 has no regular expressions; translate() replaces single characters",
    "tokenize": "XPath 1.0 has no regular expressions; contains() may do",
    "ends-with": "write substring(s, string-length(s) - string-length(t) + 1) = t",
    "lower-case": "write translate(s, 'ABC...', 'abc...')",
    "upper-case": "write translate(s, 'abc...', 'ABC...')",
    "string-join": "XPath 1.0 has concat() only",
    "exists": "write the path itself: a path is true when it selects something",
    "empty": "write not(path)",
    "avg": "write sum(path) div count(path)",
    "min": "write path[not(. > ../path)] or compare with a constant",
    "max": "write path[not(. < ../path)] or compare with a constant",
    "abs": "write an 'or' of two comparisons",
    "distinct-values": "a path already selects each node once",
    "data": "write string(path)",
    "current-date": "a subscription sees the message alone; put the date in as a string",
    "current-dateTime": "a subscription sees the message alone; put the time in as a string",
    "doc": "a subscription sees the message alone",
    "document": "a subscription sees the message alone (document() belongs to XSLT)",
    "key": "key() belongs to XSLT; write a predicate",
    "current": "current() belongs to XSLT",
    "if": "XPath 1.0 has no 'if'; write (condition and a) or (not(condition) and b)",
    "element": "write * for any element",
    "attribute": "write @* for any attribute",
    "item": "write node() for any node",
    "document-node": "write / for the document",
}
