"""Residual subscriptions: libxml2 decides what no tree pattern does, on messages that a necessary pattern let through.

A subscription that libxml2 cannot evaluate on a message fails alone (``twigcast.failures``).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import groupby

from lxml import etree

from twigcast import _kernel, libxml2
from twigcast.arrow import pa, pc
from twigcast.errors import QueryError, excerpt
from twigcast.failures import FATAL, MAX_TEXT, Failed, FailedRows
from twigcast.lang.cost import Size, cost
from twigcast.lang.lexer import MAX_LENGTH
from twigcast.limits import Limits
from twigcast.pattern import Residual
from twigcast.selecting import Selecting, Tree, select
from twigcast.shares import Result


class Residuals:
    """The residual subscriptions by number."""

    def __init__(self) -> None:
        self._sources: dict[int, Residual] = {}
        self._selecting: dict[int, Selecting] = {}
        self._numbers: pa.Array | None = None

    def __len__(self) -> int:
        return len(self._sources)

    def __contains__(self, number: int) -> bool:
        return number in self._sources

    def items(self) -> Iterable[tuple[int, Residual]]:
        return self._sources.items()

    def add(self, number: int, residual: Residual, selecting: Selecting | None = None) -> None:
        """Add a subscription. ``selecting`` is for those that ask for more than the match."""
        self._sources[number] = residual
        self._numbers = None
        if selecting is not None:
            self._selecting[number] = selecting

    def want(self, number: int, result: str) -> bool:
        """Set what a residual subscription selects. Return False if the subscription is not residual."""
        residual = self._sources.get(number)
        if residual is not None:
            self._selecting[number] = Selecting(residual, fragments=result == "fragments")
        return residual is not None

    def remove(self, number: int) -> None:
        if self._sources.pop(number, None) is not None:
            self._selecting.pop(number, None)
            self._numbers = None

    def _evaluate(self, number: int, message: Message, limits: Limits) -> bool | Failed:
        """Return whether a message satisfies a residual subscription, or why that cannot be decided."""
        residual = self._sources.get(number)
        if residual is None:
            return False  # removed meanwhile
        key = residual.xpath, residual.prefixes
        known = message.answers.get(key)
        if known is None:
            known = message.answers[key] = _answer(residual, message, limits)
        return known if isinstance(known, bool) else Failed(number, *known)

    def keep(self, xml: bytes, numbers: list[int], limits: Limits) -> tuple[list[int], list[Failed]]:
        """Return the matches without those that libxml2 denies, and the subscriptions that failed."""
        if not any(n in self._sources for n in numbers):
            return numbers, []
        message = Message(xml, limits)
        kept: list[int] = []
        failed: list[Failed] = []
        for number in numbers:
            holds = self._evaluate(number, message, limits) if number in self._sources else True
            if isinstance(holds, Failed):
                failed.append(holds)
            elif holds:
                kept.append(number)
        return kept, failed

    def keep_lists(self, xml: pa.Array, matches: pa.ListArray, limits: Limits) -> tuple[pa.ListArray, FailedRows]:
        """Do as ``keep`` does, for a column of messages and their lists of matches."""
        flat = matches.flatten()
        wrong: list[int] = []
        failed: FailedRows = {}
        for at, row, number, message in self._doubtful(xml, matches, flat, limits):
            holds = self._evaluate(number, message, limits)
            if isinstance(holds, Failed):
                failed.setdefault(row, []).append(holds)
            if holds is not True:
                wrong.append(at)
        return without(wrong, matches, flat), failed

    def select(
        self, xml: bytes, numbers: list[int], results: dict[int, Result], limits: Limits
    ) -> tuple[list[int], dict[int, Result], list[Failed]]:
        """Do as ``keep`` does, with the results of subscriptions by number, those of residual ones among them."""
        if not any(n in self._sources for n in numbers):
            return numbers, results, []
        message = Message(xml, limits)
        kept: list[int] = []
        failed: list[Failed] = []
        for number in numbers:
            holds = self._evaluate(number, message, limits) if number in self._sources else True
            if isinstance(holds, Failed):
                failed.append(holds)
            elif holds:
                kept.append(number)
        asking = [(number, self._selecting[number]) for number in kept if number in self._selecting]
        if not asking:
            return kept, results, failed
        every, untold = select(message.numbered, asking, limits)
        for number, nodes, fragments, reason in (one.selected() for one in every):
            results[number] = nodes, fragments, reason is None, None, reason
        lost = {one.number for one in untold}
        return [number for number in kept if number not in lost], results, failed + untold

    def select_lists(
        self, xml: pa.Array, matches: pa.ListArray, limits: Limits, max_bytes: int
    ) -> tuple[pa.ListArray, FailedRows]:
        """Do as ``select`` does, for a column of messages and their lists of matches.

        The lists may be of fewer messages: they end after the one with which there are ``max_bytes`` of fragments.
        """
        flat = matches.flatten()
        wrong: list[int] = []
        failed: FailedRows = {}
        places = array("q", range(len(flat)))
        selected: list[_kernel.Selected] = []
        size, rows = 0, len(matches)
        doubtful = self._doubtful(xml, matches, flat.field("subscription"), limits)
        for row, some in groupby(doubtful, key=lambda one: one[1]):
            if size >= max_bytes:
                rows = row
                break
            asking: list[tuple[int, Selecting]] = []
            places_of: dict[int, int] = {}
            for at, _, number, message in some:
                holds = self._evaluate(number, message, limits)
                if isinstance(holds, Failed):
                    failed.setdefault(row, []).append(holds)
                if holds is not True:
                    wrong.append(at)
                elif number in self._selecting:
                    asking.append((number, self._selecting[number]))
                    places_of[number] = at
            every, untold = select(message.numbered, asking, limits) if asking else ([], [])
            for one in untold:
                failed.setdefault(row, []).append(one)
                wrong.append(places_of[one.number])
            for taken in every:
                places[places_of[taken.number]] = len(flat) + len(selected)
                selected.append(taken.selected())
                size += sum(map(len, taken.fragments or ()))
        if selected:
            more = pa.array([_row(*one) for one in selected], flat.type)
            flat = pa.concat_arrays([flat, more]).take(pa.array(places))
        return without(wrong, matches, flat)[:rows], failed

    def _doubtful(
        self, xml: pa.Array, matches: pa.ListArray, numbers: pa.Array, limits: Limits
    ) -> Iterator[tuple[int, int, int, Message]]:
        """Yield the matches that libxml2 decides: place among all, row, number of the subscription, and the message."""
        if self._numbers is None:
            self._numbers = pa.array(sorted(self._sources), pa.uint32())
        doubtful = pc.indices_nonzero(pc.is_in(numbers, self._numbers))
        rows = pc.list_parent_indices(matches).take(doubtful).to_pylist()
        last, message = -1, Message(b"", limits)
        for at, row, number in zip(doubtful.to_pylist(), rows, numbers.take(doubtful).to_pylist(), strict=True):
            if row != last:
                last, message = row, Message(xml[row].as_py(), limits)
            yield at, row, number, message


def _row(number: int, nodes: list[int] | None, fragments: list[bytes] | None, reason: str | None) -> dict[str, object]:
    """Return a match as a row of the kernel's columns."""
    result = {"nodes": nodes, "fragments": fragments, "complete": reason is None, "reason": reason}
    return {"subscription": number, **result}


def without(wrong: list[int], matches: pa.ListArray, flat: pa.Array) -> pa.ListArray:
    """Return lists as long as ``matches`` of the values ``flat``, without those at the places in ``wrong``."""
    keep = bytearray(b"\1") * len(flat)
    for at in wrong:
        keep[at] = 0
    kept = pa.array(array("b", bytes(keep)), pa.int8())
    sums = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(kept.cast(pa.int32()))])
    first = matches.offsets[0].as_py()
    offsets = sums.take(pc.subtract(matches.offsets, first))
    return pa.ListArray.from_arrays(offsets, flat.filter(pc.equal(kept, 1)), type=matches.type)


def _answer(residual: Residual, message: Message, limits: Limits) -> bool | tuple[str, str]:
    """Return whether a message satisfies a residual, or the code and text of what keeps libxml2 from deciding it."""
    try:
        tree = message.tree
    except FATAL:
        raise
    except BaseException as error:
        return "message-refused", excerpt(f"libxml2 cannot read the message: {error}", MAX_TEXT)
    try:
        if message.affords(residual, limits):
            return bool(_cached(residual.xpath, residual.prefixes)(tree))
    except FATAL:
        raise
    except BaseException as error:
        said = str(error) or type(error).__name__
        return "residual-refused", excerpt(f"libxml2 cannot evaluate {excerpt(residual.xpath)}: {said}", MAX_TEXT)
    text = f"libxml2 may take too long with {excerpt(residual.xpath)}"
    return "residual-too-costly", f"{text} (more than max_residual_cost, {limits.max_residual_cost:,} nodes)"


class Message:
    """A message as libxml2 sees it, parsed when first asked, and the answers to residuals known so far."""

    def __init__(self, xml: bytes | str, limits: Limits) -> None:
        self._xml = xml
        self._limits = limits
        self.answers: dict[tuple[object, ...], bool | tuple[str, str]] = {}
        """By text and prefixes, which many subscriptions share: the answer, or code and text of a failure."""

    @property
    def tree(self) -> etree._ElementTree:
        """The parsed message. Raises if libxml2 cannot read it."""
        if isinstance(self._parsed, BaseException):
            raise self._parsed
        return self._parsed

    @cached_property
    def _parsed(self) -> etree._ElementTree | BaseException:
        # The error is kept: with a thousand residuals the message must not be parsed a thousand times in vain.
        try:
            return libxml2.read(self._xml, self._limits)
        except FATAL:
            raise
        except BaseException as error:
            return error.with_traceback(None)

    @cached_property
    def numbered(self) -> Tree:
        return Tree(self.tree)

    @cached_property
    def _nodes(self) -> int:
        return int(_COUNT(self.tree))

    @cached_property
    def _size(self) -> Size:
        """By a walk, where the number of nodes alone does not tell."""
        depth = deepest = widest = 0
        for event, element in etree.iterwalk(self.tree, events=("start", "end")):
            depth += 1 if event == "start" else -1
            deepest = max(deepest, depth)
            if event == "start":
                widest = max(widest, 2 * len(element) + 1 + len(element.attrib))  # text between children
        return Size(self._nodes, deepest + 1, widest)

    def affords(self, residual: Residual, limits: Limits) -> bool:
        most = limits.max_residual_cost
        worst = Size(self._nodes, min(self._nodes, limits.max_depth + 1), self._nodes)
        if cost(residual.xpath, residual.prefixes, worst) <= most:
            return True
        # a walk in Python is for messages where it costs less than what it may save
        return self._nodes <= most // 100 and cost(residual.xpath, residual.prefixes, self._size) <= most


_COUNT = etree.XPath("count(//node()) + count(//@*)")


@lru_cache(maxsize=10_000)
def _cached(xpath: str, prefixes: tuple[tuple[str, str], ...]) -> etree.XPath:
    return etree.XPath(f"boolean({xpath})", namespaces=dict(prefixes) or None, smart_strings=False)


def check(residual: Residual) -> etree.XPath:
    """Return the compiled test. Raises QueryError for a residual that could not be evaluated on any message.

    The bound on libxml2's work reads the canonical text, which may be longer than the query that was given.
    """
    if len(residual.xpath) > MAX_LENGTH:
        text = f"the query has {len(residual.xpath):,} characters when written out; the limit is {MAX_LENGTH:,}"
        raise QueryError("too-long", text, hint="split it into several subscriptions")
    try:
        cost(residual.xpath, residual.prefixes, Size(1, 1, 1))
        return _cached(residual.xpath, residual.prefixes)
    except (etree.XPathError, ValueError, TypeError, RecursionError) as error:
        text = f"libxml2 cannot evaluate {excerpt(residual.xpath)}: {excerpt(str(error))}"
        raise QueryError("residual-refused", text, hint="simplify the query") from error


def selecting(residual: Residual, result: str) -> Selecting | None:
    """Return what a residual subscription selects; None if it asks for the match only. Raises QueryError."""
    if result == "match":
        return None
    try:
        return Selecting(residual, fragments=result == "fragments")
    except (etree.XPathError, ValueError, TypeError) as error:
        text = f"libxml2 cannot select {excerpt(residual.xpath)}: {excerpt(str(error))}"
        raise QueryError("residual-refused", text, hint="simplify the query") from error
