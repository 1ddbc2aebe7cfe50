"""The sinks: one file per kind. ``open_sink`` makes one of its settings."""

from __future__ import annotations

from twigcast.config import AnySink
from twigcast.config import DirectorySink as DirectorySettings
from twigcast.config import KafkaSink as KafkaSettings
from twigcast.config import ParquetSink as ParquetSettings
from twigcast.config import WebhookSink as WebhookSettings
from twigcast.delivery.sinks.base import Batch, Context, Sink, SinkError

__all__ = ["Batch", "Context", "Sink", "SinkError", "open_sink"]


def open_sink(name: str, settings: AnySink, context: Context) -> Sink:
    if isinstance(settings, DirectorySettings):
        from twigcast.delivery.sinks.directory import DirectorySink

        return DirectorySink(name, settings.path, context.state, settings.layout)
    if isinstance(settings, ParquetSettings):
        from twigcast.delivery.sinks.parquet import ParquetSink

        return ParquetSink(name, settings.path, context.state, settings.compression)
    if isinstance(settings, KafkaSettings):
        from twigcast.delivery.sinks.kafka import KafkaSink

        return KafkaSink(name, settings, context)
    if isinstance(settings, WebhookSettings):
        from twigcast.delivery.sinks.webhook import WebhookSink

        return WebhookSink(name, settings, context)
    from twigcast.delivery.sinks.stdout import StdoutSink

    return StdoutSink(name)
