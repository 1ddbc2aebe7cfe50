"""The weighted query tree and the choice of prefixes: Figures 5 to 7 and appendix A3 of the eXtract paper."""

from __future__ import annotations

from random import Random

import pytest

from twigcast.chunk.scheme import Path, path_text
from twigcast.chunk.tree import QueryTree


def path(text: str) -> Path:
    return tuple(("", name) for name in text.strip("/").split("/"))


def tree(*paths: str) -> QueryTree:
    made = QueryTree()
    for one in paths:
        made.add([path(one)])
    return made


def chosen(tree: QueryTree, chunks: int) -> list[str]:
    return [path_text(one) for one in tree.prefixes(chunks)]


def test_figure_5_weights() -> None:
    made = tree("/a/b/c", "/a/b/d", "/a/b/c")
    weights = {path_text(node.path): node.weight for node in made.candidates()}
    assert weights == {"/a/b": 3, "/a/b/c": 2, "/a/b/d": 1}
    assert next(iter(made.root)).weight == 3


def test_figure_7_gives_up_the_first_candidate() -> None:
    made = tree("/a/b/c", "/a/b/d", "/a/b/c")
    assert chosen(made, 1) == ["/a/b"]
    # /a/b is taken first, and given up when /a/b/c has taken 2 of its 3; /a/b/d is as heavy as what is left, and deeper
    assert chosen(made, 2) == ["/a/b/c", "/a/b/d"]


# the distribution of A3 among 1,000 queries
A3 = {
    "/ejb-jar/assembly-descriptor/container-transaction/method": 100,
    "/ejb-jar/assembly-descriptor/container-transaction/trans-attribute": 92,
    "/ejb-jar/assembly-descriptor/method-permission/method": 95,
    "/ejb-jar/assembly-descriptor/method-permission/role-name": 83,
    "/ejb-jar/assembly-descriptor/security-role/role-name": 90,
    "/ejb-jar/assembly-descriptor/security-role/description": 80,
    "/ejb-jar/enterprise-beans/session/ejb-name": 90,
    "/ejb-jar/enterprise-beans/session/home": 73,
    "/ejb-jar/enterprise-beans/message-driven/ejb-name": 80,
    "/ejb-jar/enterprise-beans/message-driven/ejb-ref": 73,
    "/ejb-jar/enterprise-beans/entity/ejb-name": 80,
    "/ejb-jar/enterprise-beans/entity/cmp-field": 64,
}
PREFIXES = {
    2: ["assembly-descriptor", "enterprise-beans"],
    3: ["assembly-descriptor", "assembly-descriptor/container-transaction", "enterprise-beans"],
    4: [
        "assembly-descriptor/container-transaction",
        "assembly-descriptor/method-permission",
        "assembly-descriptor/security-role",
        "enterprise-beans",
    ],
    5: [
        "assembly-descriptor/container-transaction",
        "assembly-descriptor/method-permission",
        "assembly-descriptor/security-role",
        "enterprise-beans",
        "enterprise-beans/session",
    ],
    6: [
        "assembly-descriptor/container-transaction",
        "assembly-descriptor/method-permission",
        "assembly-descriptor/security-role",
        "enterprise-beans/entity",
        "enterprise-beans/message-driven",
        "enterprise-beans/session",
    ],
}


@pytest.mark.parametrize("chunks", PREFIXES)
def test_a3(chunks: int) -> None:
    made = QueryTree()
    for text, weight in A3.items():
        made.add([path(text)], weight)
    assert chosen(made, chunks) == [f"/ejb-jar/{one}" for one in PREFIXES[chunks]]


def test_a_subscription_counts_once_on_the_way_of_all_its_expressions() -> None:
    made = QueryTree()
    made.add([path("/a/b/c"), path("/a/b/d"), path("/a/b/c/d")])
    assert {path_text(node.path): node.weight for node in made.candidates()} == {
        "/a/b": 1, "/a/b/c": 1, "/a/b/c/d": 1, "/a/b/d": 1,
    }  # fmt: skip
    made.add([path("/a/b/c"), path("/a/b/d"), path("/a/b/c/d")], -1)
    assert not list(made.candidates())


def test_the_document_element_is_no_chunk() -> None:
    assert chosen(tree("/a", "/a", "/a/b"), 3) == ["/a/b"]
    assert chosen(QueryTree(), 3) == []


def test_a_prefix_is_as_deep_as_its_weight() -> None:
    assert chosen(tree("/a/b/c/d", "/a/b/c/d", "/a/e"), 2) == ["/a/b/c/d", "/a/e"]


def test_what_is_left_of_a_candidate_given_up_comes_back() -> None:
    # five end at /a/b itself: less than what is below it, so it is given up first, and taken again at the end
    made = tree(*["/a/b"] * 5, *["/a/b/c"] * 9, *["/a/b/d"] * 8)
    assert chosen(made, 2) == ["/a/b", "/a/b/c"]
    assert chosen(made, 3) == ["/a/b", "/a/b/c", "/a/b/d"]


def test_it_ends_and_takes_each_expression_away_again() -> None:
    random = Random(7)
    for _ in range(200):
        paths = ["/r" + "".join(f"/{random.choice('abc')}" for _ in range(random.randint(0, 4))) for _ in range(20)]
        made = tree(*paths)
        chunks = random.randint(0, 12)
        found = chosen(made, chunks)
        assert len(found) <= chunks and "/r" not in found
        shuffled = random.sample(paths, len(paths))
        assert chosen(tree(*shuffled), chunks) == found, "the order of subscriptions does not matter"
        for one in shuffled[:15]:
            made.add([path(one)], -1)
        assert chosen(made, chunks) == chosen(tree(*shuffled[15:]), chunks)
