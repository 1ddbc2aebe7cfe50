"""``twigcast explain`` of a correlation: join graph and shared state."""

from __future__ import annotations

from twigcast.correlate.explain import CorrelationSharing, explain_correlation
from twigcast.lang.xscl import parse_correlation


def test_graph_and_state() -> None:
    found = explain_correlation("S/feed/item->i[id->d][ref->r] JOIN{d = e, 5 min} T//note->n[@id->e]")
    assert [(one.name, one.above, one.path) for one in found.join_graph] == [
        ("i", None, "/feed/item[ref]"),
        ("d", "i", "id"),
        ("n", None, "//note"),
        ("e", "n", "@id"),
    ]
    assert [(one.stream, one.pattern, one.index, one.window) for one in found.state] == [
        ("S", "/feed/item[ref]/id", "by value", "5 min"),
        ("T", "//note/@id", "by value", "5 min"),
    ]
    assert found.shows == ("i", "n")
    assert "state       d: S/feed/item[ref]/id by value, for 5 min" in str(found)


def test_what_is_shared_with_others() -> None:
    text = "S//a->x[c = 'k'][id->i] JOIN{i = j, 5 min} T//b[id->j]"
    others = [
        text,
        text.replace("5 min", "INF"),
        text.replace("'k'", "'l'"),
        text.replace("id->i", "@id->i"),
        "SELECT * FROM S//z",
    ]
    found = explain_correlation(text, others=map(parse_correlation, others))
    assert found.sharing == CorrelationSharing(correlations=5, shape=3, equal=2)
    assert [(one.variable, one.shared_by) for one in found.state] == [("i", 3), ("j", 4)]


def test_chains_keep_messages_for_all_that_may_follow() -> None:
    found = explain_correlation("S//a->x JOIN{x = y, 5 min} S//b->y FOLLOWED BY{y = z, 10 min} S//c->z")
    assert [one.window for one in found.state] == ["15 min", "15 min", "10 min"]


def test_one_block_has_no_state() -> None:
    found = explain_correlation("SELECT * FROM S")
    assert found.state == ()
    assert "state" not in str(found)
