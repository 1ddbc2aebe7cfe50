"""Twigcast: a content-based publish/subscribe broker for XML, on Spark."""

from twigcast.broker import Broker, Explanation, Match
from twigcast.engine import Engine, Subscription
from twigcast.errors import MessageError, OptionError, QueryError, TwigcastError
from twigcast.limits import Limits
from twigcast.results import Selected

__all__ = [
    "Broker",
    "Engine",
    "Explanation",
    "Limits",
    "Match",
    "MessageError",
    "OptionError",
    "QueryError",
    "Selected",
    "Subscription",
    "TwigcastError",
]
