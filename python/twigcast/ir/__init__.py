"""The intermediate representation (IR) that every query language compiles to.

`pattern` has the tree patterns of filters, `transform` what FLWR compiles to, `correlation` what XSCL compiles to, and
`visit` walks and rewrites all three, and XPath's syntax trees too: start there. `decompose` takes a pattern apart into
what engines see, for `explain`.

Imports: errors. Everything here is immutable data that compares by value.
"""

__all__ = ["correlation", "decompose", "pattern", "transform", "visit"]
