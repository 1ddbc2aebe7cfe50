"""The one exception family. A user's mistake reads like a compiler's message: what, where, what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of characters in a query's text."""

    start: int
    end: int


class TwigcastError(Exception):
    """Base of every error Twigcast raises on purpose.

    ``code`` is stable and meant for programs; ``text`` is for people; ``hint`` says what to do about it.
    ``source`` and ``span``, where the mistake is in a text the user wrote, give the caret.
    """

    def __init__(
        self, code: str, text: str, *, hint: str | None = None, source: str | None = None, span: Span | None = None
    ) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.hint = hint
        self.source = source
        self.span = span

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.text}"]
        if self.source is not None and self.span is not None:
            lines += caret(self.source, self.span)
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


class QueryError(TwigcastError):
    """A subscription that cannot be accepted."""


class MessageError(TwigcastError):
    """A message that cannot be read: not well-formed, or beyond a limit."""

    def __init__(self, code: str, text: str, *, line: int, column: int, offset: int) -> None:
        super().__init__(code, text)
        self.line = line
        self.column = column
        self.offset = offset

    @classmethod
    def of_kernel(cls, error: tuple[str, str, int, int, int]) -> Self:
        """Return an error of the kernel, which is a tuple there."""
        code, text, line, column, offset = error
        return cls(code, text, line=line, column=column, offset=offset)

    def __str__(self) -> str:
        place = f"{self.line}:{self.column}: " if self.line else ""  # an error of the message as a whole has none
        return f"{place}{self.code}: {self.text}"


class SubscriptionError(TwigcastError):
    """A subscription that could not be evaluated on a message. It fails alone: the others get their matches."""


class OptionError(TwigcastError):
    """A setting or argument out of range; the text names the right ones."""


class StateDamaged(TwigcastError):
    """A file of a run's state is missing or cannot be used; to go on would skip messages or deliver them twice."""

    REMEDY = "restore the state folder as a whole from a backup, or name an empty one to start anew"

    def __init__(self, file: object, text: str, *, hint: str = REMEDY) -> None:
        super().__init__("state-damaged", f"{file} {text}", hint=hint)


QUOTED = 200
"""Characters of a message that an error text may quote."""


def excerpt(text: str, most: int = QUOTED) -> str:
    """Return at most ``most`` characters of a text: all of it, or its beginning and its end."""
    if len(text) <= most:
        return text
    return f"{text[: most - 60]}…{text[-59:]}"


def caret(source: str, span: Span) -> list[str]:
    """The line of ``source`` that holds ``span``, and a caret line under it."""
    start = min(span.start, len(source))
    first = source.rfind("\n", 0, start) + 1
    last = source.find("\n", start)
    line = source[first : last if last >= 0 else len(source)]
    width = max(1, min(span.end, first + len(line)) - start)
    return ["  " + line.replace("\t", " "), "  " + " " * (start - first) + "^" * width]
