"""A misspelt keyword is recognised as such, in every language, at its place."""

from __future__ import annotations

import pytest

from twigcast.common.text import misspelt
from twigcast.errors import QueryError
from twigcast.lang.kinds import ambiguity, check_kind, kind_of
from twigcast.lang.unsatisfiable import never_matches

MISSPELT = [
    ("<r>{ for $s in //a retrun $s }</r>", "retrun", "'return'"),
    ("<r>{ for $s in //a where $s/b > 3 retrun $s }</r>", "retrun", "'return'"),
    ("<r>{ for $s in //a wher $s/b > 3 return $s }</r>", "wher", "'where'"),
    ("<r>{ fro $s in //a return $s }</r>", "fro", "'for'"),
    ("<r>{ for $s im //a return $s }</r>", "im", "'in'"),
    ("<r>{ for $s in //a ordr by $s/b return $s }</r>", "ordr", "'order'"),
    ("<r>{ for $s in //a Return $s }</r>", "Return", "'return'"),
    ("S//a->x FOLOWED BY{x = y, 5} S//b->y", "FOLOWED", "FOLLOWED BY"),
    ("S//a->x FOLLOWED BI{x = y, 5} S//b->y", "BI", "BY"),
    ("S//a->x JION{x = y, 5} S//b->y", "JION", "JOIN"),
    ("S//a JION{x = y, 5} S//b", "JION", "JOIN"),
    ("SELCT * FROM S//a->x JOIN{x=y,5} S//b->y", "SELCT", "SELECT"),
    ("SELECT * FORM S//a->x JOIN{x=y,5} S//b->y", "FORM", "FROM"),
    ("FORM S//a", "FORM", "FROM"),
    ("S//a->x JOIN{x=y,5} S//b->y PUBLSH z", "PUBLSH", "PUBLISH"),
    ("S//a->x JOIN{x=y ADN x = y,5} S//b->y", "ADN", "AND"),
    ("//a[b adn c]", "adn", "'and'"),
    ("//a[b = 3 ro c]", "ro", "'or'"),
    ("//a[contians(b, 'x')]", "contians", "contains()"),
    ("//a/dscendant::b", "dscendant", "descendant::"),
    ("//a/tetx()", "tetx", "text()"),
    ("//a[teext() = 3]", "teext", "text()"),
]


@pytest.mark.parametrize(("query", "word", "meant"), MISSPELT)
def test_a_misspelt_keyword_is_recognised(query: str, word: str, meant: str) -> None:
    with pytest.raises(QueryError) as caught:
        never_matches(query)
    error = caught.value
    assert error.span is not None and query[error.span.start : error.span.end] == word
    assert error.hint == f"did you mean {meant}?"


def test_names_are_not_taken_for_misspelt_keywords() -> None:
    assert misspelt("b", ("and", "or")) is None
    assert misspelt("price", ("return", "where")) is None
    with pytest.raises(QueryError) as caught:
        never_matches("//a[b price]")
    assert "did you mean" not in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("S/blog//title", "filter"),
        ("blog", "filter"),
        ("FROM S/blog//title", "correlate"),
        ("SELECT * FROM blog", "correlate"),
        ("S//blog->x", "correlate"),
        ("S//blog AS $x", "correlate"),
        ("//a[b = '->']", "filter"),
        ("//a[b = 'JOIN{']", "filter"),
        ("//from/select", "filter"),
        ("from/select", "filter"),
        ("form and select", "filter"),
        ("{urn:join,x}a and {urn:a,b}c", "filter"),
        ("<r>{ for $x in //a return $x }</r>", "transform"),
        ("for $x in //a return $x", "transform"),
    ],
)
def test_the_text_decides_the_language(query: str, kind: str) -> None:
    assert kind_of(query) == kind
    check_kind(kind, query)


def test_a_text_that_could_be_a_block_is_noted() -> None:
    note = ambiguity("S/blog//title")
    assert note is not None and "FROM S/blog//title" in note and "document element 'S'" in note
    assert ambiguity("/S/blog//title") is None and ambiguity("FROM S/blog//title") is None
    assert ambiguity("count(//a) > 3") is None
