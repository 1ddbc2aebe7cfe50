"""Patterns for the names of files, as in a shell.

Imports: errors.
"""

from __future__ import annotations

import re

from twigcast.errors import OptionError


def glob_pattern(glob: str) -> re.Pattern[str]:
    """Return a pattern for names with ``*``, ``?``, ``[a-z]``, ``[^a-z]``, ``{this,that}`` and backslashes.

    Raises OptionError if the glob is empty or has a range that is not one, such as ``[z-a]``.
    """
    if not glob:
        raise OptionError("bad-glob", "a glob must not be empty", hint='"*" takes every file')
    text, depth, place = "", 0, 0
    while place < len(glob):
        char = glob[place]
        place += 1
        if char == "\\" and place < len(glob):
            text += re.escape(glob[place])
            place += 1
        elif char == "*":
            text += ".*"
        elif char == "?":
            text += "."
        elif char == "[" and "]" in glob[place + 1 :]:
            end = glob.index("]", place + 1)
            inner = glob[place:end]
            inner = "".join(f"\\{c}" if c in "\\[&~|" else c for c in inner)
            text += "[" + ("^" + inner[1:] if inner.startswith(("!", "^")) else inner) + "]"
            place = end + 1
        elif char == "{" and "}" in glob[place:]:
            text, depth = text + "(?:", depth + 1
        elif char == "}" and depth:
            text, depth = text + ")", depth - 1
        elif char == "," and depth:
            text += "|"
        else:
            text += re.escape(char)
    try:
        return re.compile(text + ")" * depth, re.DOTALL)
    except re.error:
        hint = r"a set is written as [a-z] or [^a-z]; \[ is a bracket"
        raise OptionError("bad-glob", f"{glob!r} has brackets that are not a set of characters", hint=hint) from None
