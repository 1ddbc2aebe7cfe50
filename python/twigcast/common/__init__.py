"""Small things that every room may use: texts, secrets, private files, forked processes, pyarrow when it is needed.

Imports: errors.
"""
