"""Metrics of a run for Prometheus, over HTTP: ``http://host:port/metrics``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.core import GaugeMetricFamily

from twigcast.errors import OptionError

if TYPE_CHECKING:
    from twigcast.spark.pipeline import Progress, Run

SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """A registry of its own, so that several runs of one process (tests) do not meet."""

    def __init__(self, host: str, port: int) -> None:
        self.run: Run | None = None
        self.registry = CollectorRegistry()
        self._address = (host, port)
        self._counters = {
            name: Counter(f"twigcast_{name}", text, ["stream"], registry=self.registry)
            for name, text in {
                "messages": "Messages read.",
                "bytes": "Bytes of messages read.",
                "deliveries": "Deliveries committed to the log.",
                "rejects": "Messages refused, into the dead letter.",
                "subscription_failures": "Failures of single subscriptions, one for each subscription and message.",
                "batches": "Micro-batches committed.",
            }.items()
        }
        self._seconds = Histogram(
            "twigcast_batch_seconds", "Time of a micro-batch.", ["stream"], buckets=SECONDS, registry=self.registry
        )
        self._subscriptions = Gauge("twigcast_subscriptions", "Active subscriptions.", registry=self.registry)
        self._version = Gauge("twigcast_store_version", "Version of the subscriptions in use.", registry=self.registry)
        self.registry.register(_Sinks(self))

    def __enter__(self) -> Metrics:
        host, port = self._address
        try:
            self._server, self._thread = start_http_server(port, addr=host, registry=self.registry)
        except OSError as error:
            text = f"the metrics cannot be served on {host}:{port}: {error.strerror}"
            raise OptionError("bad-metrics", text, hint="set another port under [metrics]") from error
        return self

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def on_batch(self, progress: Progress) -> None:
        counts, stream = progress.counts, progress.stream
        for name in ("messages", "bytes", "deliveries", "rejects"):
            self._counters[name].labels(stream).inc(getattr(counts, name))
        self._counters["subscription_failures"].labels(stream).inc(counts.failures)
        self._counters["batches"].labels(stream).inc()
        self._seconds.labels(stream).observe(progress.seconds)
        self._subscriptions.set(progress.subscriptions)
        self._version.set(progress.version)


class _Sinks:
    """Asked when somebody looks, rather than kept up to date."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Any]:
        families = {
            "lag_batches": GaugeMetricFamily("twigcast_sink_lag_batches", "Batches not taken yet.", labels=["sink"]),
            "waiting": GaugeMetricFamily("twigcast_sink_waiting", "Deliveries taken, not made yet.", labels=["sink"]),
            "failing": GaugeMetricFamily("twigcast_sink_failing_seconds", "0: it does not fail.", labels=["sink"]),
        }
        run = self._metrics.run
        for sink in run.runner.status() if run is not None else ():
            families["lag_batches"].add_metric([sink.sink], sink.lag)
            families["waiting"].add_metric([sink.sink], sink.waiting)
            since = sink.failing_since
            families["failing"].add_metric([sink.sink], 0 if since is None else time.time() - since)
        store = GaugeMetricFamily("twigcast_store_failing", "1: the store cannot be reached.")
        store.add_metric([], int(run is not None and run.live.failing is not None))
        paused = GaugeMetricFamily("twigcast_subscriptions_paused", "Paused because they kept failing; at most 100.")
        paused.add_metric([], len(run.paused.reasons()) if run is not None else 0)
        yield from (*families.values(), store, paused)
