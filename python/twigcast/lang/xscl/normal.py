"""Drafts -> blocks of variables. What nothing needs is folded into filters and edges, so that equal queries look equal
however many names their texts give."""

from __future__ import annotations

from functools import lru_cache

from twigcast.errors import QueryError
from twigcast.ir.correlation import Block, Variable
from twigcast.ir.pattern import Twig
from twigcast.ir.transform import Path
from twigcast.lang import ast
from twigcast.lang.flwr.paths import Paths
from twigcast.lang.xscl.blocks import BlockDraft
from twigcast.lang.xscl.drafts import Draft, path_of, without_self


def normalize(source: str, block: BlockDraft) -> tuple[Block, dict[int, int]]:
    """The block, and the numbers of its variables by the ``id`` of their drafts."""
    if not _any_needed(block.first):
        block.root.needed = True
    first = _folded(block.first)
    assert first is not None
    numbers: dict[int, int] = {}
    variables: list[Variable] = []
    stack: list[tuple[Draft, int | None]] = [(first, None)]
    unnamed = 0
    while stack:
        draft, parent = stack.pop()
        number = numbers[id(draft)] = len(variables)
        name = draft.name
        if not name:
            unnamed += 1
            name = f"_{unnamed}"
        above = None if parent is None else variables[parent]
        variables.append(Variable(name, parent, _compiled(source, draft, above)))
        stack += [(child, number) for child in reversed(draft.children)]
    return Block(block.stream, tuple(variables), numbers.get(id(block.root), 0)), numbers


def _any_needed(draft: Draft) -> bool:
    stack = [draft]
    while stack:
        one = stack.pop()
        if one.needed:
            return True
        stack += one.children
    return False


def _folded(draft: Draft) -> Draft | None:
    """Without the variables that nothing needs; None if there is nothing needed at or below it."""
    children: list[Draft] = []
    idle: list[Draft] = []
    for child in draft.children:
        folded = _folded(child)
        if folded is None:
            idle.append(child)
        else:
            children.append(folded)
    if not draft.steps and (children or draft.needed):
        # The document has no filters: what has to exist below it stays a variable.
        for child in idle:
            child.children = []
        children, idle = children + idle, []
    is_idle = not children and not draft.needed
    # To exist, a[b]/c and a[b][c] are the same; as a path, a long chain of steps does not become a deep one.
    last = idle.pop() if is_idle and idle else None
    for child in idle:
        draft.filter(path_of(child.steps, child.span))
    if last is not None:
        draft.steps += without_self(last.steps)
    if is_idle:
        return None
    if len(children) == 1 and not draft.needed:
        child = children[0]
        child.steps = [*draft.steps, *without_self(child.steps)]
        child.parent = draft.parent
        return child
    draft.children = children
    for child in children:
        child.parent = draft
    return draft


def _compiled(source: str, draft: Draft, above: Variable | None) -> Path:
    if not draft.steps and above is None:
        return Path(".", "document", Twig())
    bound = None if above is None or above.kind == "document" else above.kind
    expr = path_of(draft.steps, draft.span, absolute=bound is None)
    path = _known_path(expr, bound)
    if path is not None:
        return path
    paths = Paths(source)
    _path(paths, expr, bound)
    raise QueryError(
        "not-a-pattern",
        f"a query block has to be a tree pattern: {paths.reasons[0].text}",
        hint="use child, descendant and attribute steps, and conditions on what lies below",
        source=source,
        span=paths.reasons[0].span,
    )


@lru_cache(100_000)
def _known_path(expr: ast.LocationPath, bound: str | None) -> Path | None:
    """A path is compiled once, however many queries have it; None if it is none: only they know their places."""
    try:
        path = _path(Paths(""), expr, bound)
    except QueryError:
        return None
    return path if path.twig is not None else None


def _path(paths: Paths, expr: ast.LocationPath, bound: str | None) -> Path:
    return paths.binding(expr) if bound is None else paths.relative(expr, bound)
