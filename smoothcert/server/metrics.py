"""Figures for Prometheus: what was asked and answered, how busy the service is. Each app has its own registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from smoothcert.server.values import CertifiedAnswer, Mode, QueueState

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class QueueCollector(Collector):
    """How busy the service is at the moment of asking."""

    def __init__(self, state: Callable[[], QueueState]) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        """Figures of the side that draws."""
        waiting, draws, rows, regions = self._state()
        yield CounterMetricFamily("smoothcert_draws", "Draws carried out.", value=draws)
        yield CounterMetricFamily("smoothcert_rows", "Rows of batches passed through the network.", value=rows)
        fill = draws / rows if rows else 1.0
        yield GaugeMetricFamily("smoothcert_batch_fill", "Share of rows that were draws of a request.", value=fill)
        yield GaugeMetricFamily("smoothcert_waiting", "Inputs accepted and not yet answered.", value=waiting)
        yield GaugeMetricFamily("smoothcert_regions", "Regions in the memory.", value=regions)


class ServiceMetrics:
    """What was asked and answered since the start."""

    def __init__(self, state: Callable[[], QueueState]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(QueueCollector(state))
        self._requests = Counter(
            "smoothcert_requests", "Requests answered.", ("route", "status", "mode"), registry=self._registry
        )
        self._seconds = Histogram(
            "smoothcert_request_seconds",
            "Seconds from a request's head to the end of its answer.",
            ("route", "mode"),
            buckets=SECONDS,
            registry=self._registry,
        )
        self._answers = Counter(
            "smoothcert_answers", "Inputs answered, by what vouches for the answer.", ("mode", "guarantee"),
            registry=self._registry,
        )  # fmt: skip
        self._abstentions = Counter(
            "smoothcert_abstentions", "Inputs abstained on.", ("mode",), registry=self._registry
        )
        self._hits = Counter(
            "smoothcert_memory_hits", "Inputs answered from the memory without a draw.", registry=self._registry
        )

    def requested(self, route: str, status: int, mode: str, seconds: float) -> None:
        """One request is over."""
        self._requests.labels(route, str(status), mode).inc()
        self._seconds.labels(route, mode).observe(seconds)

    def answered(self, mode: Mode, answers: Sequence[CertifiedAnswer]) -> None:
        """One request's inputs were answered."""
        for answer in answers:
            self._answers.labels(mode, answer.guarantee).inc()
            if answer.abstained:
                self._abstentions.labels(mode).inc()
            if answer.guarantee == "memory" and answer.draws == 0:
                self._hits.inc()

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self._registry)
