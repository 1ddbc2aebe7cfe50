"""Subscriptions, subscribers and schemas in a database: SQLite by default, PostgreSQL by URL. See docs/store.md."""
