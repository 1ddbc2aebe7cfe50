"""The papers' own strategies, kept to compare them with Twigcast's, and the papers' experiments.

Nothing here is for production: the answers are the same as those of ``twigcast.Engine`` and ``twigcast.Broker``, only
the ways to them differ. Start with ``engine.py`` (filters and transforms), ``broker.py`` (correlations) and
``relational.py`` (layouts of tables); ``experiments/`` has what ``twigcast bench`` runs.

Imports: everything but Spark, delivery and the command line. No module of the product imports this package.
"""

from __future__ import annotations

from twigcast.papers.broker import Broker, Correlations
from twigcast.papers.engine import Engine
from twigcast.papers.explanation import PlanExplanation
from twigcast.papers.relational import RelationalEngine

__all__ = ["Broker", "Correlations", "Engine", "PlanExplanation", "RelationalEngine"]
