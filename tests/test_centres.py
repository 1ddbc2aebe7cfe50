"""Patterns whose branches meet in a node that a message has once, several times, or nested in itself."""

from __future__ import annotations

from itertools import product

from lxml import etree

from twigcast import Engine, Subscription

TRUNKS = ("/r", "//a", "/r/a", "/*/a", "//a//b", "/r[@k = '1']//a", "/r[c]/a", "//a[b]/b")
FILTERS = (
    "", "[@k = '1']", "[b/@k = '2']", "[.//c = '3']", "[c]", "[. = '3']", "[@k < 2]", "[.//@k != '1']",
    "[b[c = '3']]", "[b and .//c]", "[not(c)]", "[c or @k = '2']", "[contains(c, '3')]", "[b[2]]",
)  # fmt: skip
BELOW = ("", "/b", "//c", "//b[@k = '2']", "/b[c]/c", "/*/text()")

MESSAGES = (
    "<r k='1'><a k='1'><b k='2'><c>3</c></b></a></r>",
    "<r k='1'><a k='1'><b/></a><a k='2'><b k='2'/><c>3</c></a><c/></r>",
    "<r><a k='1'><a><b k='2'><a k='2'><b><c>3</c></b></a></b></a><b k='1'><c>4</c></b></a></r>",
    "<r k='2'><c>3</c><x><a><b><b k='2'><c>3</c><c>33</c></b></b>3</a></x><a>3</a></r>",
    # a value of more pieces than are read unasked
    "<r k='1'><a k='1'><b>" + "<i/>".join("3" * 12) + "</b><c>3<i/></c></a><a><b/><b k='2'/><c/></a></r>",
)


def test_every_combination_agrees_with_libxml2() -> None:
    queries = [t + f + g + below for t, f, g, below in product(TRUNKS, FILTERS, FILTERS, BELOW) if f <= g]
    engine = Engine()
    engine.add_many(Subscription(i, query) for i, query in enumerate(queries))
    compiled = [etree.XPath(query) for query in queries]
    for message in MESSAGES:
        tree = etree.fromstring(message)
        expected = [i for i, query in enumerate(compiled) if query(tree)]
        found = engine.match(message.encode())
        wrong = [queries[i] for i in sorted(set(found) ^ set(expected))]
        assert not wrong, (message, wrong[:10])
