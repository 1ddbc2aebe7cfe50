"""Local paths as Spark has to be told them: it looks for a path without a scheme in ``fs.defaultFS``."""

from __future__ import annotations

import re
from pathlib import Path


def local_uri(path: str | Path, *, pattern: bool = False) -> str:
    """Return a path of this machine as a URI; other URIs stay as they are.

    Nothing is escaped as in other URIs, since Spark (Hadoop) takes ``%20`` in a path for what it is. Where Spark reads
    the path as a ``pattern``, the characters with a meaning there are escaped.
    """
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(path)):
        return str(path)
    text = str(Path(path).absolute())
    return "file://" + (re.sub(r"([\\*?\[\]{}])", r"\\\1", text) if pattern else text)
