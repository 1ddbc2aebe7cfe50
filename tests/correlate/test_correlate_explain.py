"""``twigcast explain`` of a correlation: join graph, minor, template, shared state."""

from __future__ import annotations

from twigcast.correlate.explain import explain_correlation


def test_graph_minor_template_and_state() -> None:
    found = explain_correlation("S/feed/item->i[id->d][ref->r] JOIN{d = e, 5 min} T//note->n[@id->e]")
    assert [(one.name, one.above, one.path) for one in found.join_graph] == [
        ("i", None, "/feed/item[ref]"),
        ("d", "i", "id"),
        ("n", None, "//note"),
        ("e", "n", "@id"),
    ]
    assert [(one.name, one.above) for one in found.minor] == [("d", None), ("e", None)]
    assert found.template == "var1 | var2 : var1 = var2"
    assert found.meta_variables == ("d", "e")
    assert [(one.stream, one.pattern, one.index, one.window) for one in found.state] == [
        ("S", "/feed/item[ref]/id", "by value", "5 min"),
        ("T", "//note/@id", "by value", "5 min"),
    ]
    assert found.shows == ("i", "n")
    assert "minor       d = S/feed/item[ref]/id" in str(found)


def test_chains_keep_messages_for_all_that_may_follow() -> None:
    found = explain_correlation("S//a->x JOIN{x = y, 5 min} S//b->y FOLLOWED BY{y = z, 10 min} S//c->z")
    assert [one.window for one in found.state] == ["15 min", "15 min", "10 min"]


def test_one_block_has_no_template() -> None:
    found = explain_correlation("SELECT * FROM S")
    assert (found.template, found.state) == (None, ())
    assert str(found)
