"""Blocks as the kernel takes them: a program for the pattern, what hangs below a variable being a condition on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twigcast.correlation import Block
from twigcast.pattern import And, Exists, Node, Or, Step, Twig
from twigcast.plan.encode import encode
from twigcast.plan.slots import slotted

Key = tuple[str, tuple[tuple[int | None, Twig], ...]]


@dataclass(frozen=True, slots=True)
class Encoded:
    """What ``Correlator.add_block`` of the kernel takes."""

    program: list[int]
    constants: list[str | float]
    paths: list[int]
    parents: list[int]


def key_of(block: Block) -> Key:
    """What tells blocks apart: not the names of their variables."""
    return block.stream, tuple((one.parent, _twig(block, at)) for at, one in enumerate(block.variables))


def encoded(block: Block, code: Callable[[Step], int]) -> Encoded:
    """Raises NotEncodable where the kernel has no word for a step."""
    whole = [Twig()] * len(block.variables)
    for at in reversed(range(len(block.variables))):
        whole[at] = _with(_twig(block, at), [Exists(whole[child]) for child in block.children(at)])
    root, *others = whole
    # The document has no step to hang conditions on.
    conditions = () if root.nodes else tuple(Exists(whole[child]) for child in block.children(0))
    program, constants = slotted(And((Exists(root), And(conditions), Or(tuple(map(Exists, others))))))
    paths = Or(tuple(Exists(_from_document(block, at)) for at in range(len(block.variables))))
    parents = [one.parent or 0 for one in block.variables]
    return Encoded(encode(program, code), constants, encode(paths, code), parents)


def _twig(block: Block, at: int) -> Twig:
    twig = block.variables[at].path.twig
    assert twig is not None, "the variables of a correlation have twigs"
    return twig


def _with(twig: Twig, branches: list[Exists]) -> Twig:
    if not branches or not twig.nodes:
        return twig
    *before, last = twig.nodes
    return Twig((*before, Node(last.step, (*last.filters, *branches))))


def _from_document(block: Block, at: int | None) -> Twig:
    """The steps alone."""
    steps: list[Node] = []
    while at is not None:
        steps[:0] = [Node(node.step) for node in _twig(block, at).nodes]
        at = block.variables[at].parent
    return Twig(tuple(steps))
