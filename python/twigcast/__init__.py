"""Twigcast: a content-based publish/subscribe broker for XML, on Spark."""

from twigcast import _kernel
from twigcast.broker import Broker, Explanation, Match
from twigcast.correlate.default import StateWarning
from twigcast.engine import Engine, Subscription
from twigcast.errors import MessageError, OptionError, QueryError, TwigcastError
from twigcast.limits import Limits
from twigcast.results import Selected
from twigcast.subscription import Failure

__all__ = [
    "Broker",
    "Engine",
    "Explanation",
    "Failure",
    "Limits",
    "Match",
    "MessageError",
    "OptionError",
    "QueryError",
    "Selected",
    "StateWarning",
    "Subscription",
    "TwigcastError",
    "__version__",
]

__version__ = str(_kernel.__version__)
