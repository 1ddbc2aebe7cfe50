"""A correlation: what XSCL text compiles to, in value-join normal form (joins §2).

A block is a tree of variables over the messages of one stream; an edge is a path, with the tests on constants in it as
filters, from the node of one variable to that of the next. Only variables that a join compares, that SELECT shows, or
at which such branches part are left: any other condition of the block is a filter on one of these, so that a variable
means its whole pattern but for the branches that are variables themselves (SEMANTICS 22). A predicate compares two
variables of two blocks; a path from a variable in the text has become a variable of its own.

Everything is immutable and compares by value. Times and windows are whole microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

from twigcast.ir.pattern import Twig
from twigcast.ir.transform import Copy, Element, Hole, Item, Name, Path, items_of
from twigcast.ir.visit import Part, replace, transform

JOIN, FOLLOWED = "join", "followed"
ROOT_NAME = "result"


class Ref(NamedTuple):
    """A variable: the number of its block, and its own number therein."""

    block: int
    variable: int


class Variable(Part):
    """``path`` leads from the node of ``parent`` (None: from the document), and always has a twig. ``name`` is for
    print-out; those that the text does not name have names of the form ``_1``."""

    name: str
    parent: int | None
    path: Path

    @property
    def kind(self) -> str:
        """Of the nodes it is bound to: ``element``, ``attribute``, ``text``, … or ``document``."""
        return self.path.kind


class Block(Part):
    """A parent comes before its children. ``root`` is the variable that the default output shows: the innermost
    element of the block's own path, or the document. ``stream`` is empty where the text names none: then every message
    counts, but for those that correlations publish."""

    stream: str
    variables: tuple[Variable, ...]
    root: int

    def children(self, of: int | None) -> list[int]:
        return [at for at, one in enumerate(self.variables) if one.parent == of]

    @property
    def parents(self) -> list[int]:
        """By variable the place of its parent; that of the root is its own."""
        return [one.parent or 0 for one in self.variables]


class JoinPredicate(Part):
    """``right`` is in the block that the link adds, ``left`` in an earlier one. ``=`` and ``!=`` compare strings,
    ``< <= > >=`` numbers (SEMANTICS 5, 20)."""

    left: Ref
    op: str
    right: Ref


class Link(Part):
    """What ties a block to all blocks before it. ``window`` None: no bound (SEMANTICS 18)."""

    kind: str
    predicates: tuple[JoinPredicate, ...]
    window: int | None


class VariablePath(Path):
    """A path of the SELECT clause, from the node of a variable."""

    ref: Ref = Ref(0, 0)


class Correlation(Part, gc=True, dict=True):
    """``links[i]`` ties ``blocks[i + 1]`` to those before: chains are left-deep, and what the blocks so far found has
    the time of its latest message (SEMANTICS 24). ``select`` None: the default output."""

    blocks: tuple[Block, ...]
    links: tuple[Link, ...]
    select: Element | None = None
    publish: str | None = None

    @cached_property
    def template(self) -> Element:
        """What is put out. By default the roots of the blocks under a new root."""
        if self.select is not None:
            return self.select
        return under_root(
            [Copy(self_path(Ref(at, b.root), b.variables[b.root].kind)) for at, b in enumerate(self.blocks)]
        )

    @cached_property
    def shown(self) -> tuple[Ref, ...]:
        """The variables of the template, each once: results are a set over their bindings (SEMANTICS 21)."""
        return tuple(dict.fromkeys(path.ref for path in template_paths(self.template)))

    @property
    def predicates(self) -> tuple[JoinPredicate, ...]:
        return tuple(one for link in self.links for one in link.predicates)

    @cached_property
    def streams(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(block.stream for block in self.blocks))

    def variable(self, ref: Ref) -> Variable:
        return self.blocks[ref.block].variables[ref.variable]


def self_path(ref: Ref, kind: str) -> VariablePath:
    """The node of a variable itself."""
    return VariablePath(".", kind, Twig(), ref)


def under_root(items: list[Item | Element]) -> Element:
    return Element(Name("", ROOT_NAME), content=tuple(Hole((item,)) for item in items))


def template_paths(template: Element) -> Iterator[VariablePath]:
    """The paths of a template as they come."""
    for item in items_of((template,)):
        if isinstance(item, Copy) and isinstance(item.path, VariablePath):
            yield item.path


def with_refs(template: Element, number: Callable[[Ref], Ref]) -> Element:
    """Return the template with its variables numbered anew."""

    def renumber(part: Part) -> Part:
        return replace(part, ref=number(part.ref)) if isinstance(part, VariablePath) else part

    return transform(template, renumber)
