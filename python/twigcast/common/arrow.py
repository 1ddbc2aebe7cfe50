"""pyarrow, imported when it is first used.

With NumPy it takes longer to import than a small file takes to match. Modules that every command loads therefore take
``pa`` and ``pc`` from here; those that need them at once import pyarrow itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["pa", "pc"]


class _Lazy:
    """Stands for a module until one of its attributes is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    pa = _Lazy("pyarrow")
    pc = _Lazy("pyarrow.compute")
