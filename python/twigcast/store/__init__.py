"""Subscriptions, subscribers and schemas in a database: SQLite by default, PostgreSQL by URL. See docs/store.md."""

from twigcast.store.errors import StoreError
from twigcast.store.records import Changes, PublisherRecord, SubscriberRecord, SubscriptionRecord
from twigcast.store.store import Store
from twigcast.store.transfer import Imported, export_jsonl, import_jsonl

__all__ = [
    "Changes",
    "Imported",
    "PublisherRecord",
    "Store",
    "StoreError",
    "SubscriberRecord",
    "SubscriptionRecord",
    "export_jsonl",
    "import_jsonl",
]
