"""Subscriptions as tables, matching as joins: for sets that outgrow memory, or live in a database already.

The design is that of Tian et al., "Implementing a scalable XML publish/subscribe system using relational database
systems" (SIGMOD 2004), cited as *relational §…*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twigcast.relational.database import open_database
    from twigcast.relational.engine import RelationalEngine

__all__ = ["RelationalEngine", "open_database"]


def __getattr__(name: str) -> Any:
    """Import the engine when it is first used: databases take long to import."""
    if name == "RelationalEngine":
        from twigcast.relational.engine import RelationalEngine

        return RelationalEngine
    if name == "open_database":
        from twigcast.relational.database import open_database

        return open_database
    raise AttributeError(f"module 'twigcast.relational' has no attribute {name!r}")
