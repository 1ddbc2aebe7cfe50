"""Secrets that are kept elsewhere: ``env:NAME`` stands for an environment variable, ``file:PATH`` for a file's content.

A reference is stored and shown as it is, and resolved each time the secret is used, so a secret that changes needs no
restart. Only an operator may write references (configuration, command line): whoever can write one can have Twigcast
read any file or variable that the process can read. Targets that subscribers supply themselves are refused with one.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from twigcast.errors import OptionError

_REFERENCE = re.compile(r"(env|file):(.+)", re.DOTALL)


def is_reference(text: str) -> bool:
    return _REFERENCE.fullmatch(text) is not None


def resolve(text: str, what: str) -> str:
    """Return the secret that a text is, or refers to; ``what`` names it in errors, which never show the secret."""
    found = _REFERENCE.fullmatch(text)
    if found is None:
        return text
    kind, name = found.groups()
    if kind == "env":
        if name not in os.environ:
            raise OptionError("no-secret", f"{what}: the environment variable {name} is not set", hint="set it")
        secret = os.environ[name]
    else:
        try:
            secret = Path(name).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
            raise OptionError("no-secret", f"{what}: {name}: {reason}", hint="name a file with the secret") from None
    if not secret:
        raise OptionError("no-secret", f"{what}: {text} is empty")
    return secret


def absolute(text: str, folder: Path) -> str:
    """Return a reference with the path of its file relative to ``folder`` made absolute; other texts as they are."""
    if not text.startswith("file:") or not is_reference(text):
        return text
    return f"file:{(folder / Path(text.removeprefix('file:')).expanduser()).absolute()}"
