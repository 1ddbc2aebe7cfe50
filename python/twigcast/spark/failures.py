"""What went wrong in Spark, in one line.

A failed query reports the exceptions of the driver, the JVM and the Python workers, each within the message of the one
that it caused, with stack traces in between, and at the end its own state and plan.
"""

from __future__ import annotations

import re

from twigcast.errors import StateDamaged

LONGEST = 500
"""Characters of a cause: some messages quote whole records."""

_QUERY = re.compile(r"^\s*(=== Streaming Query ===|== .* Plan ==|(Logical|Physical) Plan:|Thread State:)", re.MULTILINE)
"""From here on a report describes the query, and not the failure."""
_EXCEPTION = re.compile(r"(?:^|(?<=: ))((?:[A-Za-z_$][\w$]*\.)*[A-Z][\w$]*(?:Error|Exception))(?:: |:?$)")
_PREFIX = re.compile(
    r"^(Caused by: |\[STREAM_FAILED\] |Query \[id = [^\]]*\] terminated with exception: "
    r"|Job aborted due to stage failure: |Task .*? most recent failure: |Lost task .*? \([^()]*\): )"
)
_SUFFIX = re.compile(r"\s*SQLSTATE: \w{5}\b.*$")
_NO_MESSAGE = ("Traceback (most recent call last)", "An exception was thrown from the Python worker")
_UNNAMED = re.compile(r"^(SparkException|StreamingQueryException|\w*TwigcastError|OptionError|QueryError)$")
"""Exceptions whose message says all."""
_DAMAGE = re.compile(r"\bStateDamaged: state-damaged: (\S+) (.+)")
"""What a worker that reads the delivery log says of a file, with a path as far as its first space."""


def cause(report: str) -> str:
    """Return the exception of a report that led to the others, and its message.

    That is the last one before the description of the query: Java prints causes last, and Python the exception that
    the program decided to raise.
    """
    end = _QUERY.search(report)
    lines = report[: end.start() if end else None].splitlines()
    lines = [line.rstrip() for line in lines if line.strip() and not line[0].isspace() and not line.startswith("at ")]
    named = [text for line in lines if (text := _exception(line))]
    if not named:
        named = [text for line in lines if (text := _message(line)) and not text.startswith(_NO_MESSAGE)][:1]
    text = named[-1] if named else "the query failed"
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def cause_of(error: BaseException) -> str:
    """Return the cause that the report of an error names.

    An error of Java asks the JVM for its report. When the JVM has ended, only what kind of error it was is known.
    """
    try:
        return cause(str(error) or type(error).__name__)
    except Exception:
        return type(error).__name__


def damage_of(error: BaseException) -> StateDamaged | None:
    """Return the damage of the state folder that a worker met, if that is what an error of Spark reports."""
    try:
        found = _DAMAGE.findall(str(error))
    except Exception:  # the JVM, which is asked for its report, may have ended
        return None
    return StateDamaged(*found[-1]) if found else None


def _exception(line: str) -> str | None:
    """Return the innermost exception that a line names and its message, or None where it has no message of its own."""
    found = list(_EXCEPTION.finditer(line.removeprefix("Caused by: ")))
    if not found:
        return None
    last = found[-1]
    name, message = last[1].rsplit(".", 1)[-1], _message(last.string[last.end() :])
    if message.startswith(_NO_MESSAGE) or (not message and "." in last[1]):
        return None
    if not message:
        return name
    return message if _UNNAMED.match(name) else f"{name}: {message}"


def _message(text: str) -> str:
    """Return the message of an exception without the text that Spark wraps around the message of its cause."""
    text = text.strip()
    while (shorter := _PREFIX.sub("", text)) != text:
        text = shorter
    return _SUFFIX.sub("", text)
