"""Metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import prometheus_client as prometheus

from fedconformal.monitoring.events import StreamState
from fedconformal.serving.bodies import Answer

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
CONTENT_TYPE = prometheus.CONTENT_TYPE_PLAIN_0_0_4
COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "requests": ("Requests, by path and status.", ("path", "status")),
    "rows": ("Rows answered.", ()),
    "set_labels": ("Labels in all sets.", ()),
    "full_sets": ("Sets that hold every label.", ()),
    "outcomes": ("Outcomes, by fate.", ("what",)),
}
WATCH = {
    "known": "Rows of the watch with a known outcome.",
    "missed": "Missed rows among them.",
    "waiting": "Rows of the watch without an outcome.",
    "limit": "Miss rate that the promise allows.",
    "log_e_value": "Logarithm of the evidence against the promise.",
    "alarm": "Whether the alarm was raised.",
}


class Metrics:
    """Counts of requests, rows and sets of this process, and the state of a watch.

    >>> metrics = Metrics({"predictor": "3f2a"})
    >>> metrics.answered("/predict", 200, 0.002)
    >>> [line for line in metrics.text().decode().splitlines() if line.startswith("fedconformal_requests_total")]
    ['fedconformal_requests_total{path="/predict",status="200"} 1.0']
    """

    def __init__(self, about: dict[str, str], *, watched: bool = False) -> None:
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = prometheus.CollectorRegistry()
        here: dict[str, Any] = {"registry": self._registry}
        prometheus.Info("fedconformal", "The predictor that is served.", **here).info(about)
        counters = {name: prometheus.Counter(f"fedconformal_{name}", *text, **here) for name, text in COUNTERS.items()}
        self._requests, self._rows, self._labels, self._full, self._outcomes = counters.values()
        text = "Time to answer POST /predict."
        self._seconds = prometheus.Histogram("fedconformal_predict_seconds", text, buckets=SECONDS, **here)
        gauges = WATCH if watched else {}
        self._watch = [prometheus.Gauge(f"fedconformal_watch_{name}", text, **here) for name, text in gauges.items()]

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count a request; durations are recorded for predictions only."""
        self._requests.labels(path, str(status)).inc()
        if path == "/predict":
            self._seconds.observe(seconds)

    def sets(self, answer: Answer) -> None:
        """Count rows, the labels in their sets and full sets."""
        self._rows.inc(len(answer.sets))
        self._labels.inc(sum(map(len, answer.sets)))
        self._full.inc(answer.full_sets)

    def outcomes(self, counts: Mapping[str, int]) -> None:
        """Count outcomes by fate: counted, repeated, conflicting, early."""
        for what, count in counts.items():
            self._outcomes.labels(what).inc(count)

    def text(self, watch: StreamState | None = None) -> bytes:
        """Return all metrics in the text format, including those of a watch."""
        if watch is not None:
            values = (watch.known, watch.misses, watch.waiting, watch.limit, watch.log_e_value, watch.alarm)
            for gauge, value in zip(self._watch, values, strict=True):
                gauge.set(value)
        return prometheus.generate_latest(self._registry)
