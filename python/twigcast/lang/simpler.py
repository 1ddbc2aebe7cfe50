"""A simpler form of a condition on the document, for necessary patterns: cases that axes take apart become one again.

A sibling of ``p`` may be a child of any element or of the document, so that ``//p[not(following-sibling::b)]`` is first
bound by ``.//*/p or p``. The document has one element, which has no such siblings, and the rest is ``.//p``.
"""

from __future__ import annotations

from twigcast.ir.pattern import FALSE, And, Exists, Or, Predicate, Step, Twig, any_branch
from twigcast.ir.visit import replace
from twigcast.lang.canon import conj, disj, exists

MOST_COMPARED = 32
"""Terms of a disjunction that are compared with each other."""

_ANY = Step("descendant", "element")
"""``.//*``."""

Parts = frozenset[Predicate]


def on_document(predicate: Predicate) -> Predicate:
    """Return an equal condition on the document, without alternatives that others include."""
    match predicate:
        case And(terms):
            steps = [step for term in terms if (step := _root(term)) is not None]
            names = [{step.local for step in steps} - {None}, {step.ns for step in steps} - {None}]
            return FALSE if any(len(one) > 1 for one in names) else conj(*map(on_document, terms))
        case Or(terms) if len(terms) <= MOST_COMPARED:
            return disj(*_everywhere(_widest([on_document(term) for term in terms])))
    return predicate


def _root(term: Predicate) -> Step | None:
    """Return the step from the document to its element, if the term holds only where this leads somewhere."""
    twig = any_branch(term)
    if twig is None or not twig.nodes:
        return None
    step = twig.nodes[0].step
    return step if step.axis == "child" and step.kind == "element" else None


def _widest(terms: list[Predicate]) -> list[Predicate]:
    """Return the terms of a disjunction without those that imply another: of ``a and b``, ``a`` only ``a`` is left."""
    parts = [_parts(term) for term in terms]
    return [
        term
        for term, (somewhere, own) in zip(terms, parts, strict=True)
        if not any(other < own and somewhere == where for where, other in parts)
    ]


def _parts(term: Predicate) -> tuple[bool, Parts]:
    """Return whether the term is about some element, not the document, and what this must satisfy, all of it."""
    inner = _of_some_element(term)
    held = term if inner is None else inner
    return inner is not None, frozenset(held.terms) if isinstance(held, And) else frozenset((held,))


def _of_some_element(term: Predicate) -> Predicate | None:
    """Return the condition that some element satisfies, if a term says that and no more."""
    if not isinstance(term, Exists) or not term.twig.nodes or term.twig.nodes[0].step != _ANY:
        return None
    first, *rest = term.twig.nodes
    if rest:
        return None if first.filters else exists(Twig(tuple(rest)))
    return first.filters[0] if len(first.filters) == 1 else None


def _everywhere(terms: list[Predicate]) -> list[Predicate]:
    """Return the terms with ``.//p`` instead of ``.//*/p`` and ``p``."""
    found = set(terms)
    for term in terms:
        inner = _of_some_element(term)
        if inner in found and isinstance(inner, Exists) and inner.twig.nodes[0].step.axis == "child":
            first, *rest = inner.twig.nodes
            deep = replace(first, step=replace(first.step, axis="descendant"))
            found -= {term, inner}
            found.add(exists(Twig((deep, *rest))))
    return [term for term in terms if term in found] + [term for term in found if term not in terms]
