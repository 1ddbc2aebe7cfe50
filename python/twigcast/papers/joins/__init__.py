"""MMQJP's strategies for correlations (joins §3-§5), on DuckDB, and one query at a time."""
