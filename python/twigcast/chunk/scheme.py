"""The chunking scheme: which part of a document goes into which fragment, and what is evaluated there.

eXtract (section 4) defines a chunk as a prefix P and a set F of filter nodes, and a filtering scheme of degree n as n
chunks with their expressions and a potpourri. Three things are different here:

* Filter nodes are paths that may have ``//`` and ``*``, and each says whether the element's tag is enough or all that
  is in it is needed, for bare tags decide no value test (SEMANTICS 4).
* The potpourri need not be the document: it is what the filter nodes of its expressions say, unless ``whole``.
* A subscription is a formula over expressions, each with a chunk of its own. Conditions on the document element, of
  which there is one, thus need not be beside the chunk: ``/a[b/c]/d`` is ``/a/b/c`` and ``/a/d``, wherever these are.

All is plain data and pickles: Spark ships it to its workers.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

from twigcast.chunk.formula import holds
from twigcast.engine import Subscription, SubscriptionId
from twigcast.ir.pattern import Predicate, Step, Twig, test_text
from twigcast.schema.graph import ElementGraph
from twigcast.schema.satisfiable import Impossible

Name = tuple[str, str]
"""Namespace (empty: none) and local name."""

Path = tuple[Name, ...]
"""The names of elements from the document element down."""


def path_text(path: Path) -> str:
    return "".join(f"/{test_text('element', *name)}" for name in path)


@dataclass(frozen=True, slots=True)
class Keep:
    """Elements that a fragment keeps: those that ``steps`` find below the document, each as its start tag with all
    attributes and namespace declarations or, with ``subtree``, with all that is in it. Ancestors come with them, as
    tags. The steps are of elements; an axis is child or descendant, a namespace or name of None is any."""

    steps: tuple[Step, ...]
    subtree: bool

    def __str__(self) -> str:
        return "".join(map(str, self.steps)) + ("/…" if self.subtree else "")


@dataclass(frozen=True, slots=True)
class ExpressionShape:
    """What expressions share that differ in constants only.

    ``unit``: such an expression holds for the document just if it holds for some piece of it, whatever the pieces, as
    long as they never part what is in an element that ``unit`` finds, and have the tags of all elements around them.
    None: it takes a fragment of its chunk.

    ``whole``: if such an element is parted nevertheless, it still holds for the document if it holds for some piece, as
    long as no piece parts what is in an element that ``whole`` finds. None: that says nothing.
    """

    like: Subscription
    """An expression as a subscription, but for its id and text. Its result says what has to be told."""
    texts: tuple[str, ...]
    """The text of the query around its constants."""
    twig: Twig | None = None
    """The pattern that the expression is, if it is one."""
    reach: Path = ()
    """The longest prefix of a chunk that it can be evaluated in."""
    keeps: tuple[Keep, ...] | None = None
    """What it needs of the document in the potpourri; None: all of it."""
    unit: tuple[Keep, ...] | None = None
    whole: tuple[Keep, ...] | None = None


Rows: TypeAlias = dict[tuple[str, ...], int]
"""Expressions of one shape: the constants of each, as they stand in a query, and its number."""


@dataclass(frozen=True, slots=True)
class Group:
    """The expressions of one shape. Those of a large set are no objects of their own: there may be very many."""

    shape: ExpressionShape
    rows: Rows

    @property
    def subscriptions(self) -> list[Subscription]:
        """The expressions as subscriptions with their numbers as ids."""
        first, *texts = self.shape.texts
        queries = (first + "".join([a + b for a, b in zip(row, texts, strict=True)]) for row in self.rows)
        return [
            replace(self.shape.like, id=number, query=query)
            for query, number in zip(queries, self.rows.values(), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk, or the potpourri: its number is then 0 and its prefix empty.

    The fragment of a chunk is the document without all that is neither an ancestor of an element at ``prefix``, nor
    inside such an element, nor kept by ``filters``. Where there are no filters, it may be cut into batches between any
    two elements at ``prefix``, each with their ancestors' tags: what holds for a batch holds for the document.
    """

    number: int
    prefix: Path
    filters: tuple[Keep, ...] = ()
    groups: tuple[Group, ...] = ()
    """What is evaluated on every fragment."""
    weight: int = 0
    """How many subscriptions have an expression here."""
    whole: bool = False
    """Only of the potpourri: its fragment is the document itself."""

    @property
    def batchable(self) -> bool:
        return bool(self.prefix) and not self.filters

    @property
    def keeps(self) -> tuple[Keep, ...]:
        """All that the fragment keeps, the prefix first."""
        if not self.prefix:
            return self.filters
        steps = tuple(Step("child", "element", ns, local) for ns, local in self.prefix)
        return (Keep(steps, True), *self.filters)

    @property
    def numbers(self) -> list[int]:
        """The numbers of its expressions."""
        return [number for group in self.groups for number in group.rows.values()]

    @property
    def subscriptions(self) -> list[Subscription]:
        """Its expressions as subscriptions, by number."""
        return sorted((one for group in self.groups for one in group.subscriptions), key=lambda one: int(one.id))


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes that a subscription selects: those of an expression, if ``guard`` holds."""

    guard: Predicate
    nodes: int


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """How the outcomes of expressions make the answer to a subscription: whether it matches, and what it selects.

    It is the same for all subscriptions that differ in constants only. Formulas and parts know an expression by its
    place in ``expressions``.
    """

    result: str
    expressions: tuple[ExpressionShape, ...]
    matches: Predicate
    parts: tuple[Part, ...] = ()
    taken: bool = False
    """The whole answer is that of the only expression, be it what it may (a transform, say)."""
    reason: Impossible | None = None
    """Why no valid document can match."""


class Answer(NamedTuple):
    """The answer to one subscription: its shape, and the numbers of the expressions."""

    id: SubscriptionId
    shape: AnswerShape
    numbers: Sequence[int]

    def holds(self, formula: Predicate, found: Container[int]) -> bool:
        """Return whether a formula of its shape holds, where ``found`` has the expressions that do."""
        return holds(formula, lambda place: self.numbers[place] in found)

    def is_certain(self, found: Container[int]) -> bool:
        """Return whether the subscription matches whatever else may be found."""
        return holds(self.shape.matches, lambda place: self.numbers[place] in found, for_sure=True)


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to all subscriptions, in their order, without an object for each."""

    shapes: tuple[AnswerShape, ...]
    rows: dict[SubscriptionId, tuple[int, ...]]
    """By id: the place of its shape in ``shapes``, and the numbers of the expressions."""

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Answer]:
        for id, (shape, *numbers) in self.rows.items():
            yield Answer(id, self.shapes[shape], numbers)


@dataclass(frozen=True, slots=True)
class Notice:
    """A subscription that no valid document can match, and why."""

    id: SubscriptionId
    text: str
    hint: str = ""


@dataclass(frozen=True)
class Scheme:
    """``answers`` are in the order of the subscriptions. ``graph``: the scheme is right for documents whose elements
    are nested as it says, and for no others."""

    chunks: tuple[Chunk, ...]
    potpourri: Chunk
    answers: Answers
    notices: tuple[Notice, ...] = ()
    graph: ElementGraph | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, object]:
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @cached_property
    def memo(self) -> dict[str, object]:
        """What matching makes once for all documents. It stays here when the scheme is shipped."""
        return {}

    @property
    def fragments(self) -> tuple[Chunk, ...]:
        """The chunks and, where it has expressions, the potpourri."""
        return (*self.chunks, *([self.potpourri] if self.potpourri.groups else ()))

    @cached_property
    def chunk_of(self) -> dict[int, int]:
        """The number of an expression -> the number of its chunk (the potpourri: 0)."""
        return {number: chunk.number for chunk in self.fragments for number in chunk.numbers}

    @cached_property
    def homes(self) -> dict[SubscriptionId, frozenset[int]]:
        """The chunks that have to be done before a subscription is answered."""
        return {one.id: frozenset(map(self.chunk_of.__getitem__, one.numbers)) for one in self.answers}

    def allows(self, path: Path) -> bool:
        """Whether an element may be at this path, so far as the scheme relies on a schema. A document with any other
        needs a scheme without a schema (SEMANTICS 17); to ask once for each distinct path will do."""
        if self.graph is None:
            return True
        at: int | None = None
        for ns, local in path:
            at = self.graph.step(at, Step("child", "element", ns, local))
        return at != 0


class Fragment(NamedTuple):
    """A well-formed piece of a document for the expressions of one chunk.

    ``runs`` lead from its nodes to those of the document: pairs of an id here and the id there, ascending; from one
    pair to the next, both count on (ids are those of ``twigcast.subscription.RESULTS``). ``offsets`` has, for each
    pair, where its node stands in the document as it was given, in bytes.
    """

    chunk: int
    xml: bytes
    runs: tuple[tuple[int, int], ...] = ()
    offsets: tuple[int, ...] = ()
