"""The DTDs that come with Twigcast, for the demo and the benchmarks."""

from __future__ import annotations

from importlib.resources import files

from twigcast.errors import OptionError
from twigcast.schema.dtd import Dtd, read_dtd

VOCABULARIES = ("bib", "book", "catalog")


def vocabulary(name: str) -> Dtd:
    """``bib``: flat, four levels. ``book``: recursive. ``catalog``: about a hundred names, closed."""
    return read_dtd(dtd_text(name))


def dtd_text(name: str) -> bytes:
    """Return the text of a DTD."""
    if name not in VOCABULARIES:
        raise OptionError("unknown-vocabulary", f"no vocabulary {name!r}", hint=f"there are {', '.join(VOCABULARIES)}")
    return (files("twigcast.workload") / "dtds" / f"{name}.dtd").read_bytes()
