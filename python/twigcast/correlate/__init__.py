"""Correlations: queries across messages (joins, MMQJP)."""
