"""Subscriptions as tables, matching as joins: for sets that outgrow memory, or live in a database already.

The design is that of Tian et al., "Implementing a scalable XML publish/subscribe system using relational database
systems" (SIGMOD 2004), cited as *relational §…*.
"""

from twigcast.relational.database import open_database
from twigcast.relational.engine import RelationalEngine
from twigcast.relational.plans import PLANS

__all__ = ["PLANS", "RelationalEngine", "open_database"]
