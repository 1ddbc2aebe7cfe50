"""Text files that users name."""

from __future__ import annotations

import sys
from pathlib import Path

from twigcast.errors import OptionError


def read_bytes(file: str | Path, hint: str | None = None) -> bytes:
    """Return the content of a file, ``-`` for stdin, without a byte order mark. ``hint``: for one that is not there.

    Raises OptionError if it cannot be read.
    """
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else Path(file).read_bytes()
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError)
        raise OptionError("unreadable", f"{file}: {error.strerror}", hint=hint if is_missing else None) from error
    return data.removeprefix(b"\xef\xbb\xbf")


def read_text(file: str | Path, hint: str | None = None) -> str:
    """Return the text of a file in UTF-8, which is read as by ``read_bytes``."""
    try:
        return read_bytes(file, hint).decode()
    except UnicodeDecodeError as error:
        raise OptionError("bad-encoding", f"{file}: byte {error.start + 1} is not UTF-8") from None
