"""How a query is evaluated, and why it does not match a message.

``filters.py`` reads the first off the plan that the engine makes, ``whynot.py`` finds the second by evaluating the
parts of the query with libxml2.
"""

from twigcast.explain.filters import Access, Explanation, Sharing, ValuePredicate, WhyResidual, explain

__all__ = ["Access", "Explanation", "Sharing", "ValuePredicate", "WhyResidual", "explain"]
