"""§4.4.1 of the paper, relation by relation: Q1 to Q3 over the book d1 and the blog article d2 (Tables 4a-f)."""

from __future__ import annotations

from typing import Any

import pytest
from test_xscl_language import Q1, Q2, Q3

from twigcast.lang.xscl import parse_correlation
from twigcast.papers.joins.materialized import MaterializedMmqjp
from twigcast.papers.joins.mmqjp import Mmqjp
from twigcast.papers.joins.strategy import Arrival, Joined
from twigcast.papers.plans.nodes import Message

SECOND = 1_000_000
# The figures number elements alone, in pre-order from 0; node 1 of each is bound to no variable.
D1 = (
    b"<book><publisher>Wrox</publisher><author>Danny Ayers</author><author>Andrew Watt</author>"
    b"<title>Beginning RSS and Atom Programming</title>"
    b"<category>Scripting &amp; Programming</category><category>Web Site Development</category></book>"
)
D2 = (
    b"<blog><url>http://dannyayers.com/</url><author>Danny Ayers</author>"
    b"<title>Beginning RSS and Atom Programming</title>"
    b"<category>Book Announcement</category><category>Scripting &amp; Programming</category></blog>"
)
T1, T2, T3 = 100 * SECOND, 200 * SECOND, 300 * SECOND
WINDOWS = {"T1": "100", "T2": "200", "T3": "300"}


class Walk:
    """A strategy between its messages, with its relations in the paper's names and numbers."""

    def __init__(self, strategy: Mmqjp) -> None:
        self.strategy = strategy
        for number, text in enumerate((Q1, Q2, Q3), 1):
            strategy.add(number, parse_correlation(text, windows=WINDOWS))
        self.elements: dict[int, dict[int, int]] = {}
        for document, xml in ((1, D1), (2, D2)):
            nodes = [node for node in Message(xml).nodes if node.kind == "element"]
            self.elements[document] = {node.id: at for at, node in enumerate(nodes)}

    def name(self, variable: int) -> str:
        return self.strategy.variables.shared[variable].name

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.strategy.rows(sql)

    def r_t(self) -> list[tuple[Any, ...]]:
        (family,) = self.strategy.families.values()
        rows = self.rows(f"SELECT * FROM {family.relation} ORDER BY qid")
        return [(f"Q{qid}", *map(self.name, variables), window) for qid, *variables, window in rows]

    def r_bin(self) -> set[tuple[Any, ...]]:
        return {
            (f"d{d}", self.name(v1), self.name(v2), self.elements[d][n1], self.elements[d][n2])
            for d, v1, v2, n1, n2 in self.rows("SELECT * FROM r_bin")
        }

    def r_doc(self) -> set[tuple[Any, ...]]:
        rows = self.rows("SELECT docid, node, str FROM r_doc")
        return {(f"d{d}", self.elements[d][node], value) for d, node, value in rows}

    def r_out(self) -> list[tuple[Any, ...]]:
        """With the second document at hand, as the right block."""
        (template,) = self.strategy.families
        rows = []
        for qid, document, *nodes, window in self.strategy.r_out(template, 1):
            left = [self.elements[document][node] for node in nodes[:3]]
            right = [self.elements[2][node] for node in nodes[3:]]
            rows.append((f"Q{qid}", f"d{document}", *left, *right, window))
        return sorted(rows)


@pytest.fixture(params=[Mmqjp, MaterializedMmqjp])
def walk(request: pytest.FixtureRequest) -> Walk:
    return Walk(request.param())


R_BIN_D1 = {
    ("d1", "x1", "x2", 0, 2),
    ("d1", "x1", "x2", 0, 3),
    ("d1", "x1", "x3", 0, 4),
    ("d1", "x1", "x7", 0, 5),
    ("d1", "x1", "x7", 0, 6),
}
R_DOC_D1 = {
    ("d1", 0, None),
    ("d1", 2, "Danny Ayers"),
    ("d1", 3, "Andrew Watt"),
    ("d1", 4, "Beginning RSS and Atom Programming"),
    ("d1", 5, "Scripting & Programming"),
    ("d1", 6, "Web Site Development"),
}


def test_walk_through(walk: Walk) -> None:
    strategy = walk.strategy
    # d1 meets empty state and makes no result
    assert strategy.process(Arrival(1, "S", 10 * SECOND, D1)) == []
    # Table 4(a): one template, and variables of one definition have one name (x4', x5', x6' are x4, x5, x6)
    assert walk.r_t() == [
        ("Q1", "x1", "x2", "x3", "x4", "x5", "x6", T1),
        ("Q2", "x1", "x2", "x7", "x4", "x5", "x8", T2),
        ("Q3", "x4", "x5", "x6", "x4", "x5", "x6", T3),
    ]
    # Tables 4(b) and 4(c), and R_docTS
    assert walk.r_doc() == R_DOC_D1
    assert walk.r_bin() == R_BIN_D1
    assert walk.rows("SELECT * FROM r_docts") == [(1, 10 * SECOND)]

    # Tables 4(d) and 4(e): the witnesses of d2
    arrival = Arrival(2, "S", 50 * SECOND, D2)
    witnessed = strategy.witness(arrival, Message(D2))
    at = walk.elements[2]
    assert {(at[node], value) for node, (value, _) in witnessed.docs.items()} == {
        (0, None),
        (2, "Danny Ayers"),
        (3, "Beginning RSS and Atom Programming"),
        (4, "Book Announcement"),
        (5, "Scripting & Programming"),
    }
    assert {(walk.name(v1), walk.name(v2), at[n1], at[n2]) for v1, v2, n1, n2 in witnessed.bins} == {
        ("x4", "x5", 0, 2),
        ("x4", "x6", 0, 3),
        ("x4", "x8", 0, 4),
        ("x4", "x8", 0, 5),
    }

    # Table 4(f)
    strategy.load_witnesses(witnessed)
    assert walk.r_out() == [
        ("Q1", "d1", 0, 2, 4, 0, 2, 3, T1),
        ("Q2", "d1", 0, 2, 5, 0, 2, 5, T2),
    ]

    # Algorithm 3: one output each for Q1 and Q2; then the state holds both documents
    nodes = (1, 1)
    assert strategy.process(arrival) == [Joined(1, (1, 2), nodes), Joined(2, (1, 2), nodes)]
    assert walk.r_bin() >= R_BIN_D1
    assert len(walk.r_bin()) == 9
    assert len(walk.r_doc()) == 11
    assert sorted(walk.rows("SELECT * FROM r_docts")) == [(1, 10 * SECOND), (2, 50 * SECOND)]


def test_a_window_that_has_passed(walk: Walk) -> None:
    walk.strategy.process(Arrival(1, "S", 10 * SECOND, D1))
    found = walk.strategy.process(Arrival(2, "S", 10 * SECOND + T1 + 1, D2))
    assert [one.query for one in found] == [2]


def test_cross_postings(walk: Walk) -> None:
    walk.strategy.process(Arrival(1, "S", 10 * SECOND, D2))
    assert [one.query for one in walk.strategy.process(Arrival(2, "S", 20 * SECOND, D2))] == [3]


def test_views_are_cached_by_value() -> None:
    strategy = MaterializedMmqjp()
    Walk(strategy)
    strategy.process(Arrival(1, "S", 1, D1))
    strategy.process(Arrival(2, "S", 2, D2))
    # author, title and one category are in both
    assert (strategy.hits, strategy.misses) == (0, 3)
    assert set(strategy.slices) == {
        "Danny Ayers", "Beginning RSS and Atom Programming", "Scripting & Programming",
    }  # fmt: skip
    strategy.process(Arrival(3, "S", 3, D2))
    assert (strategy.hits, strategy.misses) == (3, 4)
    strategy.expire(4)
    assert strategy.rows("SELECT count(*) FROM view_cache") == [(0,)]
    assert not strategy.slices
