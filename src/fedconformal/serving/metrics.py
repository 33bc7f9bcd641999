"""Metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    disable_created_metrics,
    generate_latest,
)

from fedconformal.monitoring.streams import StreamState

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
WATCH = {
    "known": "Rows of the watch with a known outcome.",
    "missed": "Missed rows among them.",
    "waiting": "Rows of the watch without an outcome.",
    "limit": "Miss rate that the promise allows.",
    "log_e_value": "Logarithm of the evidence against the promise.",
    "alarm": "Whether the alarm was raised.",
}


class Metrics:
    """Counts of requests, rows and sets, and the state of a watch.

    >>> metrics = Metrics({"predictor": "3f2a"})
    >>> metrics.answered("/predict", 200, 0.002)
    >>> metrics.sets(rows=3, labels=5, full=1)
    >>> [line for line in metrics.text().decode().splitlines() if line.startswith("fedconformal_rows")]
    ['fedconformal_rows_total 3.0']
    """

    def __init__(self, about: dict[str, str]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        Info("fedconformal", "The predictor that is served.", registry=self._registry).info(about)
        self._requests = self._counter("requests", "Requests, by path and status.", "path", "status")
        self._rows = self._counter("rows", "Rows answered.")
        self._labels = self._counter("set_labels", "Labels in all sets.")
        self._full = self._counter("full_sets", "Sets that hold every label.")
        self._outcomes = self._counter("outcomes", "Outcomes, by what became of them.", "what")
        self._seconds = Histogram(
            "fedconformal_predict_seconds", "Time to answer POST /predict.", buckets=SECONDS, registry=self._registry
        )
        self._watch: dict[str, Gauge] = {}

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"fedconformal_{name}", text, labels, registry=self._registry)

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count a request; the time is kept of predictions only."""
        self._requests.labels(path, str(status)).inc()
        if path == "/predict":
            self._seconds.observe(seconds)

    def sets(self, *, rows: int, labels: int, full: int) -> None:
        """Count rows, the labels in their sets, and the sets that hold every label."""
        self._rows.inc(rows)
        self._labels.inc(labels)
        self._full.inc(full)

    def outcomes(self, counts: Mapping[str, int]) -> None:
        """Count outcomes: counted, repeated, conflicting, early."""
        for what, count in counts.items():
            self._outcomes.labels(what).inc(count)

    def total(self, name: str) -> int:
        """Return a counter without labels: rows, set_labels or full_sets."""
        return int(self._registry.get_sample_value(f"fedconformal_{name}_total") or 0)

    def text(self, watch: StreamState | None = None) -> bytes:
        """Encode all of them, and those of all rows of a watch."""
        if watch is not None:
            monitor = watch.monitor()
            values = (watch.known, watch.misses, watch.waiting, watch.limit or 0, monitor.log_e_value, monitor.alarm)
            for (name, text), value in zip(WATCH.items(), values, strict=True):
                if name not in self._watch:
                    self._watch[name] = Gauge(f"fedconformal_watch_{name}", text, registry=self._registry)
                self._watch[name].set(value)
        return generate_latest(self._registry)
