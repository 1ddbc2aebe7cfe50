"""Twigcast: a content-based publish/subscribe broker for XML, on Spark.

Names are imported when they are first used. The command line starts at once this way, and can be interrupted at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twigcast.broker import Broker, Explanation
    from twigcast.correlate.default import StateWarning
    from twigcast.engine import Engine
    from twigcast.engine.failures import Failure
    from twigcast.engine.results import Match, Matches, Selected
    from twigcast.errors import MessageError, OptionError, QueryError, SubscriptionError, TwigcastError
    from twigcast.limits import Limits
    from twigcast.subscription import Subscription

    __version__: str

__all__ = [
    "Broker",
    "Engine",
    "Explanation",
    "Failure",
    "Limits",
    "Match",
    "Matches",
    "MessageError",
    "OptionError",
    "QueryError",
    "Selected",
    "StateWarning",
    "Subscription",
    "SubscriptionError",
    "TwigcastError",
    "__version__",
]

_MODULES = {
    "Broker": "broker",
    "Engine": "engine",
    "Explanation": "explain",
    "Failure": "engine.failures",
    "Limits": "limits",
    "Match": "engine.results",
    "Matches": "engine.results",
    "MessageError": "errors",
    "OptionError": "errors",
    "QueryError": "errors",
    "Selected": "engine.results",
    "StateWarning": "correlate.default",
    "Subscription": "subscription",
    "SubscriptionError": "errors",
    "TwigcastError": "errors",
    "__version__": "_kernel",
}
"""Where each public name is defined."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'twigcast' has no attribute {name!r}")
    value = getattr(import_module(f"twigcast.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
