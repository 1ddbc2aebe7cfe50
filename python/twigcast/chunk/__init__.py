"""Large documents (eXtract): subscriptions and schema say where a document is split, and the context is kept."""
