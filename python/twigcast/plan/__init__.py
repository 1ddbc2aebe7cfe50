"""Patterns to what the kernel runs: paths that decide, or a program and the paths that lead to it."""
