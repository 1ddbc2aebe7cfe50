"""Twigcast: a content-based publish/subscribe broker for XML, on Spark."""

from twigcast.errors import TwigcastError

__all__ = ["TwigcastError"]
