"""Equal queries, however they are written: names, the order of branches and of comparisons say nothing.

Subscriptions are many and distinct queries few (joins §6.3 has 1,545 of them among 100,000): whoever evaluates them
does so once for each canonical form.
"""

from __future__ import annotations

from twigcast.correlate.graph import join_graph
from twigcast.correlate.template import canonical_order
from twigcast.ir.correlation import Block, Correlation, JoinPredicate, Link, Ref, Variable, template_paths, with_refs
from twigcast.ir.transform import Path
from twigcast.ir.visit import replace


def canonical(correlation: Correlation) -> Correlation:
    """The form that equal queries share; it serves as a key. Its paths are those of the patterns, for people to read
    and not for libxml2."""
    graph = join_graph(correlation)
    shown: dict[Ref, list[int]] = {}
    if correlation.select is not None:
        for at, path in enumerate(template_paths(correlation.select)):
            shown.setdefault(path.ref, []).append(at)
    labels = []
    for node in graph.nodes:
        assert node.label is not None
        is_root = correlation.select is None and correlation.blocks[node.block].root == node.label.variable
        variable = correlation.variable(node.label)
        labels.append((node.block, str(variable.path.twig), variable.kind, is_root, tuple(shown.get(node.label, ()))))
    ranks = {label: rank for rank, label in enumerate(sorted(set(labels)))}
    order = canonical_order(graph, [ranks[label] for label in labels])
    refs: dict[Ref, Ref] = {}
    counts = [0] * len(correlation.blocks)
    for at in order:
        node = graph.nodes[at]
        assert node.label is not None
        refs[node.label] = Ref(node.block, counts[node.block])
        counts[node.block] += 1
    written = {new: old for old, new in refs.items()}
    blocks = []
    for at, block in enumerate(correlation.blocks):
        variables = []
        for number in range(counts[at]):
            old = correlation.variable(written[Ref(at, number)])
            parent = None if old.parent is None else refs[Ref(at, old.parent)].variable
            pattern = Path(str(old.path.twig), old.kind, old.path.twig)
            variables.append(Variable(f"v{at + 1}.{number + 1}", parent, pattern))
        root = refs[Ref(at, block.root)].variable if correlation.select is None else 0
        blocks.append(Block(block.stream, tuple(variables), root))
    links = tuple(
        replace(
            link,
            predicates=tuple(sorted({_renumbered(one, refs) for one in link.predicates}, key=_in_order)),
        )
        for link in correlation.links
    )
    select = None if correlation.select is None else with_refs(correlation.select, refs.__getitem__)
    return Correlation(tuple(blocks), links, select, correlation.publish)


def without_windows(correlation: Correlation) -> Correlation:
    """What queries share that differ in their windows, and in the stream they publish, alone."""
    links = tuple(Link(link.kind, link.predicates, None) for link in correlation.links)
    return replace(correlation, links=links, publish=None)


def _renumbered(predicate: JoinPredicate, refs: dict[Ref, Ref]) -> JoinPredicate:
    return JoinPredicate(refs[predicate.left], predicate.op, refs[predicate.right])


def _in_order(predicate: JoinPredicate) -> tuple[Ref, str, Ref]:
    return predicate.left, predicate.op, predicate.right
