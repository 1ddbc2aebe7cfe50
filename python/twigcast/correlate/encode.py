"""Blocks as the kernel takes them: a program for the pattern, what hangs below a variable being a condition on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twigcast.ir.correlation import Block, Correlation, Ref, VariablePath
from twigcast.ir.pattern import And, Exists, Node, Or, Step, Twig
from twigcast.ir.transform import Path
from twigcast.ir.visit import replace
from twigcast.lang.literals import LITERAL
from twigcast.lang.program import encode as encode_query
from twigcast.lang.xpath import parse
from twigcast.plan.encode import Symbols, encode
from twigcast.plan.slots import slotted
from twigcast.transform.encode import making_of_one


@dataclass(frozen=True, slots=True)
class Encoded:
    """What ``Engine.add_block`` of the kernel takes."""

    program: list[int]
    constants: list[str | float]
    paths: list[int]


def in_order(block: Block) -> tuple[Block, tuple[int, ...]]:
    """The block with its branches in a fixed order, and the new numbers of its variables by their old ones. The order
    depends on constants only where branches have nothing else to tell them apart."""
    texts = [("", "")] * len(block.variables)
    for at in reversed(range(len(block.variables))):
        branches = sorted(texts[child] for child in block.children(at))
        text = f"{twig_of(block, at)}({','.join(text for _, text in branches)})"
        texts[at] = LITERAL.sub("?", text), text
    order: list[int] = []
    pending = [0]
    while pending:
        order.append(pending.pop())
        pending += sorted(block.children(order[-1]), key=lambda child: texts[child], reverse=True)
    number = {old: new for new, old in enumerate(order)}
    variables = []
    for old in order:
        one = block.variables[old]
        variables.append(replace(one, parent=None if one.parent is None else number[one.parent]))
    return Block(block.stream, tuple(variables), number[block.root]), tuple(number[old] for old in sorted(number))


def text_of(block: Block) -> str:
    """Return a text that tells blocks in order apart, in every process alike: not by the names of their variables."""
    return repr((block.stream, [(one.parent, twig_of(block, at)) for at, one in enumerate(block.variables)]))


def encoded(block: Block, code: Callable[[Step], int]) -> Encoded:
    """Raises NotEncodable where the kernel has no word for a step."""
    whole = [Twig()] * len(block.variables)
    for at in reversed(range(len(block.variables))):
        whole[at] = _with(twig_of(block, at), [Exists(whole[child]) for child in block.children(at)])
    root, *others = whole
    # The document has no step to hang conditions on.
    conditions = () if root.nodes else tuple(Exists(whole[child]) for child in block.children(0))
    program, constants = slotted(And((Exists(root), And(conditions), Or(tuple(map(Exists, others))))))
    paths = Or(tuple(map(Exists, paths_of(block))))
    return Encoded(encode(program, code), constants, encode(paths, code))


def template(correlation: Correlation, symbols: Symbols) -> tuple[bytes, list[tuple[int, int, list[int], list[str]]]]:
    """Return what payloads are made by: the code of the template, and by path of it the block of its variable, the
    place of that among those shown, and the words of a query with the strings in it, none for the variable itself."""
    places = {ref: place for place, ref in enumerate(correlation.shown)}
    numbers: dict[tuple[Ref, str], int] = {}
    paths: list[tuple[int, int, list[int], list[str]]] = []

    def number_of(path: Path) -> int:
        assert isinstance(path, VariablePath)
        number = numbers.setdefault((path.ref, path.text), len(paths))
        if number == len(paths):
            program = None if path.is_self else encode_query(parse(path.text), symbols)
            words, strings = ([], []) if program is None else (program.words, program.strings)
            paths.append((path.ref.block, places[path.ref], words, strings))
        return number

    return making_of_one(correlation.template, number_of), paths


def condition(correlation: Correlation) -> And:
    """Return a predicate with all of the blocks that has constants."""
    return And(tuple(Exists(twig_of(block, at)) for block in correlation.blocks for at in range(len(block.variables))))


def paths_of(block: Block) -> list[Twig]:
    """Return the paths from the document to the variables of a block, without what else is asked of these."""
    return [path_of(block, at) for at in range(len(block.variables))]


def twig_of(block: Block, at: int) -> Twig:
    """Return the path to a variable from the one above it."""
    twig = block.variables[at].path.twig
    assert twig is not None, "the variables of a correlation have twigs"
    return twig


def _with(twig: Twig, branches: list[Exists]) -> Twig:
    if not branches or not twig.nodes:
        return twig
    *before, last = twig.nodes
    return Twig((*before, Node(last.step, (*last.filters, *branches))))


def path_of(block: Block, variable: int) -> Twig:
    """Return the steps alone from the document to a variable."""
    steps: list[Node] = []
    at: int | None = variable
    while at is not None:
        steps[:0] = [Node(node.step) for node in twig_of(block, at).nodes]
        at = block.variables[at].parent
    return Twig(tuple(steps))
