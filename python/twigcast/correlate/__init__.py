"""Correlations: queries across messages (joins, MMQJP)."""

STRATEGIES = ("default", "mmqjp", "mmqjp-materialized", "sequential")
"""How correlations can be evaluated; the results are the same."""
