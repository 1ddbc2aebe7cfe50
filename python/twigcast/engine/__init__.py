"""A compiled set of subscriptions: queries in, batches of messages in, matches out as Arrow columns.

Start with ``engine.py``. ``files.py`` reads files of subscriptions; ``snapshot.py`` and ``delta.py`` save what is
compiled.
"""

from twigcast.engine.compiler import TextPath
from twigcast.engine.engine import Alike, Engine, Order, Processed
from twigcast.engine.failures import Failure
from twigcast.lang.xpath import DIALECTS
from twigcast.subscription import Subscription, SubscriptionId

__all__ = [
    "DIALECTS",
    "Alike",
    "Engine",
    "Failure",
    "Order",
    "Processed",
    "Subscription",
    "SubscriptionId",
    "TextPath",
]
