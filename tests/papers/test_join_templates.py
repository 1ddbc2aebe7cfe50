"""Join graphs, their minors and templates: Table 3 of the paper, counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, product
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twigcast.lang.xscl import parse_correlation
from twigcast.papers.joins.graph import GraphNode, JoinGraph, ValueEdge, join_graph
from twigcast.papers.joins.minor import minor, patterns
from twigcast.papers.joins.template import Template, template_of

Tree = Any  # a leaf's number, or a tuple of trees
Edges = tuple[tuple[int, int], ...]


def flat(leaves: range) -> Iterator[Tree]:
    yield 0 if len(leaves) == 1 else tuple(leaves)


def any_tree(leaves: Any) -> Iterator[Tree]:
    """Every tree over these leaves whose inner nodes branch: what a minor can be."""
    leaves = tuple(leaves)
    if len(leaves) == 1:
        yield leaves[0]
        return
    for parts in partitions(leaves):
        if len(parts) > 1:
            yield from product(*[list(any_tree(part)) for part in parts])


def partitions(items: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    if not items:
        yield ()
        return
    for size in range(len(items)):
        for more in combinations(items[1:], size):
            for rest in partitions(tuple(one for one in items[1:] if one not in more)):
                yield ((items[0], *more), *rest)


def graph(left: Tree, right: Tree, edges: Edges) -> JoinGraph:
    nodes: list[GraphNode] = []
    leaves: dict[tuple[int, int], int] = {}

    def put(tree: Tree, block: int, parent: int | None) -> None:
        at = len(nodes)
        nodes.append(GraphNode(block, parent))
        if isinstance(tree, tuple):
            for child in tree:
                put(child, block, at)
        else:
            leaves[block, tree] = at

    put(left, 0, None)
    put(right, 1, None)
    return JoinGraph(tuple(nodes), tuple(ValueEdge(leaves[0, a], "=", leaves[1, b]) for a, b in edges))


def templates(joins: int, trees: Callable[[range], Iterator[Tree]]) -> set[Template]:
    found: dict[Template, tuple[int, int, Edges]] = {}
    for left, right in product(range(1, joins + 1), repeat=2):
        for edges in combinations(list(product(range(left), range(right))), joins):
            if len({a for a, _ in edges}) == left and len({b for _, b in edges}) == right:
                one = graph(next(flat(range(left))), next(flat(range(right))), edges)
                found.setdefault(template_of(one)[0], (left, right, edges))
    made: set[Template] = set()
    # Ways to join that are alike under flat trees are so under any: one of each will do.
    for left, right, edges in found.values():
        for a, b in product(list(trees(range(left))), list(trees(range(right)))):
            one = graph(a, b, edges)
            assert minor(one) == one
            made.add(template_of(one)[0])
    return made


@pytest.mark.parametrize(("joins", "of_flat", "of_any"), [(1, 1, 1), (2, 3, 3), (3, 6, 16), (4, 16, 215)])
def test_table_3(joins: int, of_flat: int, of_any: int) -> None:
    assert len(templates(joins, flat)) == of_flat
    assert len(templates(joins, any_tree)) == of_any


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_isomorphic_graphs_have_one_template(data: st.DataObject) -> None:
    left, right = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    pairs = list(product(range(left), range(right)))
    edges = data.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=6, unique=True))
    edges += [(a, 0) for a in set(range(left)) - {a for a, _ in edges}]
    edges += [(0, b) for b in set(range(right)) - {b for _, b in edges}]
    trees = list(any_tree(range(min(left, 4)))), list(any_tree(range(min(right, 4))))
    a = data.draw(st.sampled_from(trees[0])) if left < 5 else tuple(range(5))
    b = data.draw(st.sampled_from(trees[1])) if right < 5 else tuple(range(5))
    renamed_left = data.draw(st.permutations(range(left)))
    renamed_right = data.draw(st.permutations(range(right)))

    def renamed(tree: Tree, names: list[int]) -> Tree:
        if isinstance(tree, tuple):
            return tuple(data.draw(st.permutations([renamed(child, names) for child in tree])))
        return names[tree]

    one = graph(a, b, tuple(edges))
    other = graph(
        renamed(a, renamed_left),
        renamed(b, renamed_right),
        tuple(data.draw(st.permutations([(renamed_left[x], renamed_right[y]) for x, y in edges]))),
    )
    template, order = template_of(one)
    assert template_of(other)[0] == template
    # and the order is an isomorphism
    number = {at: new for new, at in enumerate(order)}
    assert {(number[e.left], number[e.right]) for e in one.edges} == {(e.left, e.right) for e in template.edges}


def test_the_minor_of_a_query() -> None:
    query = parse_correlation(
        "S//a->r[b->b[c->c[d->d]][e->e]][f->f]/g->g JOIN{d=p AND e=q, 5} T//x->x[y->y[p->p]/q->q]"
    )
    assert len(join_graph(query).nodes) == 5 + 4
    small, nodes = patterns(query)
    assert [(one.ref.block, one.parent, str(one.twig)) for one in nodes] == [
        (0, None, ".//a[f and g]/b"),
        (0, 0, "c/d"),
        (0, 0, "e"),
        (1, None, ".//x/y"),
        (1, 3, "p"),
        (1, 3, "q"),
    ]
    template, order = template_of(small)
    assert str(template) == "var1(var2, var3) | var4(var5, var6) : var2 = var5, var3 = var6"
    assert order == (0, 1, 2, 3, 4, 5)


def test_large_queries_take_no_time() -> None:
    """A query is untrusted input: as many alike branches as there may be, written in two orders."""
    numbers = list(range(60))

    def star(order: list[int]) -> str:
        left = "".join(f"[a->x{at}]" for at in order)
        right = "".join(f"[b->y{at}]" for at in reversed(order))
        return f"S//r{left} JOIN{{{' AND '.join(f'x{at}=y{at}' for at in order)}, 5}} S//r{right}"

    started = process_time()
    assert len({template_of(patterns(parse_correlation(star(order)))[0])[0] for order in (numbers, numbers[::-1])}) == 1
    assert process_time() - started < 10
