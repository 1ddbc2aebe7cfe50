"""The one IR that every language compiles to: linear paths here, tree patterns further down (DESIGN.md, idea 2)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a path: how to get there from the node before, and what is found there.

    ``axis`` is ``child`` (one level down) or ``descendant`` (one level or more). An attribute or a text node counts as
    one level below its element, so ``a//@x`` also finds an ``x`` on ``a`` itself.

    ``kind`` is ``element``, ``attribute``, ``text``, ``comment``, ``pi`` or ``node`` (any of these but an attribute).
    ``ns`` None means any namespace, ``""`` no namespace; ``local`` None means any name. For ``pi`` it is the target.
    """

    axis: str
    kind: str
    ns: str | None = None
    local: str | None = None

    def __str__(self) -> str:
        return ("//" if self.axis == "descendant" else "/") + test_text(self.kind, self.ns, self.local)


@dataclass(frozen=True, slots=True)
class LinearPath:
    """A path from the document root without predicates: all that the shared path engine sees."""

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return "".join(map(str, self.steps))


def test_text(kind: str, ns: str | None, local: str | None) -> str:
    """A node test as XPath text, namespaces written out as ``{uri}name``."""
    if kind in ("element", "attribute"):
        name = local or "*"
        if ns is not None and (ns or local is None):
            name = f"{{{ns}}}{name}"
        elif ns is None and local is not None:
            name = f"*:{local}"
        return "@" + name if kind == "attribute" else name
    if kind == "pi":
        return f"processing-instruction('{local}')" if local is not None else "processing-instruction()"
    return f"{kind}()"
