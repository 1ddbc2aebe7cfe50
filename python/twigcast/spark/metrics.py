"""Metrics of a run for Prometheus, over HTTP: ``http://host:port/metrics``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

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
                "subscription_failures": "Failures of single subscriptions, one for each subscription and message.",
                "batches": "Micro-batches committed.",
            }.items()
        }
        self._seconds = Histogram(
            "twigcast_batch_seconds", "Time of a micro-batch.", ["stream"], buckets=SECONDS, registry=self.registry
        )
        self.registry.register(_Collected(self))

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
        for name in ("messages", "bytes", "deliveries"):
            self._counters[name].labels(stream).inc(getattr(counts, name))
        self._counters["subscription_failures"].labels(stream).inc(counts.failures)
        self._counters["batches"].labels(stream).inc()
        self._seconds.labels(stream).observe(progress.seconds)


class _Collected:
    """What is read from the run when somebody looks, rather than kept up to date."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Any]:
        """Return the metrics of subscriptions, sinks and dead letters as they are now."""
        run = self._metrics.run
        subscriptions = GaugeMetricFamily("twigcast_subscriptions", "Active subscriptions.")
        version = GaugeMetricFamily("twigcast_store_version", "Version of the subscriptions in use.")
        store = GaugeMetricFamily("twigcast_store_failing", "1: the store cannot be reached.")
        store.add_metric([], int(run is not None and run.live.failing is not None))
        paused = GaugeMetricFamily("twigcast_subscriptions_paused", "Paused because they kept failing; at most 100.")
        paused.add_metric([], len(run.paused.reasons()) if run is not None else 0)
        if run is not None:
            subscriptions.add_metric([], run.live.active)
            version.add_metric([], run.live.version)
        yield from (subscriptions, version, store, paused)
        yield from self._sinks(run)
        yield self._dead_letters(run)

    def _sinks(self, run: Run | None) -> Iterator[Any]:
        lag = GaugeMetricFamily("twigcast_sink_lag_batches", "Batches not taken yet.", labels=["sink"])
        waiting = GaugeMetricFamily("twigcast_sink_waiting", "Deliveries taken, not made yet.", labels=["sink"])
        failing = GaugeMetricFamily("twigcast_sink_failing_seconds", "0: it does not fail.", labels=["sink"])
        failed = CounterMetricFamily(
            "twigcast_deliveries_failed", "Deliveries tried in vain, once for each try.", labels=["sink"]
        )
        for sink in run.runner.status() if run is not None else ():
            lag.add_metric([sink.sink], sink.lag)
            waiting.add_metric([sink.sink], sink.waiting)
            failing.add_metric([sink.sink], 0 if sink.failing_since is None else time.time() - sink.failing_since)
            failed.add_metric([sink.sink], sink.failed)
        yield from (lag, waiting, failing, failed)

    def _dead_letters(self, run: Run | None) -> CounterMetricFamily:
        family = CounterMetricFamily(
            "twigcast_dead_letters",
            "Dead letters made; sink is empty for those that are not of deliveries.",
            labels=["kind", "stream", "sink", "reason"],
        )
        for cause, count in (run.runner.dead.added.counts() if run is not None else {}).items():
            family.add_metric([cause.kind, cause.stream, cause.sink, cause.reason], count)
        return family
