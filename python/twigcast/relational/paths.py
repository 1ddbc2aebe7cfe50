"""Linear paths and tag paths as the tables have them: texts."""

from __future__ import annotations

import re

from twigcast.ir.pattern import Step

_STEP = re.compile(r"(//?)(@?)(\{[^}]*\})?([^/{]+)")
_KINDS = {"text()": "text", "comment()": "comment", "processing-instruction()": "pi"}


def steps_of(text: str) -> tuple[Step, ...]:
    """Return the steps of a linear path from its text, ``str(LinearPath(steps))``."""
    steps = []
    for slashes, at, braces, name in _STEP.findall(text):
        axis = "descendant" if slashes == "//" else "child"
        if name in _KINDS:
            steps.append(Step(axis, _KINDS[name]))
            continue
        kind = "attribute" if at else "element"
        local = None if name == "*" else name
        ns = braces[1:-1] if braces else None if local is None else ""
        if name.startswith("*:"):
            ns, local = None, name.removeprefix("*:")
        steps.append(Step(axis, kind, ns, local))
    return tuple(steps)


def pieces(text: str) -> tuple[str, str | None, str | None]:
    """Prefix, middle and reversed postfix: the path broken at its first and its last ``//`` (relational §3.2)."""
    parts = _split(text)
    if len(parts) == 1:
        return text, None, None
    middle = "//".join(parts[1:-1]) or None
    return parts[0], middle, reverse(parts[-1])


def _split(text: str) -> list[str]:
    """At every ``//`` that is no part of a namespace name."""
    parts, start, depth = [], 0, 0
    for i, c in enumerate(text):
        if c in "{}":
            depth += 1 if c == "{" else -1
        elif c == "/" and text[i : i + 2] == "//" and not depth:
            parts.append(text[start:i])
            start = i + 2
    return [*parts, text[start:]]


def reverse(path: str) -> str:
    """``/a/b/text()`` as ``text()/b/a``: what ends alike begins alike, so that an index finds it."""
    steps = re.findall(r"/?(@?(?:\{[^}]*\})?[^/{]+)", path)
    return "/".join(reversed(steps))
