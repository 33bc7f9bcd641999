"""Numbers for Prometheus, in its text format 0.0.4; they are kept in the event loop's thread, so without a lock."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping

from fedconformal.monitoring.streams import StreamState

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
CONTENT = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counts requests, rows and sets.

    >>> metrics = Metrics({"predictor": "3f2a"})
    >>> metrics.answered("/predict", 200, 0.002)
    >>> metrics.sets(rows=3, labels=5, full=1)
    >>> [line for line in metrics.text().splitlines() if line.startswith("fedconformal_rows")]
    ['fedconformal_rows_total 3']
    """

    def __init__(self, about: dict[str, str]) -> None:
        self._about = about
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds = [0] * (len(SECONDS) + 1)
        self._total = 0.0
        self._outcomes: Counter[str] = Counter()
        self.rows = self.labels = self.full = 0

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count a request; the time is kept of predictions only."""
        self._requests[path, status] += 1
        if path == "/predict":
            self._seconds[bisect_left(SECONDS, seconds)] += 1
            self._total += seconds

    def sets(self, *, rows: int, labels: int, full: int) -> None:
        """Count rows, the labels in their sets, and the sets that hold every label."""
        self.rows += rows
        self.labels += labels
        self.full += full

    def outcomes(self, counts: Mapping[str, int]) -> None:
        """Count what outcomes were: counted, repeated, conflicting, early."""
        self._outcomes.update(counts)

    def text(self, watch: StreamState | None = None) -> str:
        """Write all of them, and those of all rows of a watch."""
        lines = [*self._lines(), *(() if watch is None else self._watched(watch))]
        return "".join(f"{line}\n" for line in lines)

    def _watched(self, watch: StreamState) -> Iterator[str]:
        yield from _head("fedconformal_outcomes_total", "counter", "Outcomes, by what became of them.")
        for what, count in sorted(self._outcomes.items()):
            yield f'fedconformal_outcomes_total{{what="{what}"}} {count}'
        monitor = watch.monitor()
        gauges = {
            "known": (watch.known, "Rows of the watch with a known outcome."),
            "missed": (watch.misses, "How many of them were missed."),
            "waiting": (watch.waiting, "Rows of the watch without an outcome."),
            "limit": (watch.limit, "How often rows may be missed."),
            "log_e_value": (monitor.log_e_value, "The logarithm of the evidence against the promise."),
            "alarm": (int(monitor.alarm), "Whether the alarm was raised."),
        }
        for name, (value, words) in gauges.items():
            yield from _head(f"fedconformal_watch_{name}", "gauge", words)
            yield f"fedconformal_watch_{name} {value:.10g}"

    def _lines(self) -> Iterator[str]:
        yield from _head("fedconformal_info", "gauge", "What is served.")
        labels = ",".join(f'{key}="{_escaped(value)}"' for key, value in self._about.items())
        yield f"fedconformal_info{{{labels}}} 1"
        yield from _head("fedconformal_requests_total", "counter", "Requests, by path and status.")
        for (path, status), count in sorted(self._requests.items()):
            yield f'fedconformal_requests_total{{path="{path}",status="{status}"}} {count}'
        totals = {"rows": (self.rows, "Rows answered."), "set_labels": (self.labels, "Labels in all sets.")}
        totals["full_sets"] = (self.full, "Sets that hold every label.")
        for name, (count, words) in totals.items():
            yield from _head(f"fedconformal_{name}_total", "counter", words)
            yield f"fedconformal_{name}_total {count}"
        yield from _head("fedconformal_predict_seconds", "histogram", "Time to answer POST /predict.")
        below = 0
        for limit, count in zip((*map(str, SECONDS), "+Inf"), self._seconds, strict=True):
            below += count
            yield f'fedconformal_predict_seconds_bucket{{le="{limit}"}} {below}'
        yield f"fedconformal_predict_seconds_sum {self._total:.6f}"
        yield f"fedconformal_predict_seconds_count {below}"


def _head(name: str, kind: str, words: str) -> tuple[str, str]:
    return f"# HELP {name} {words}", f"# TYPE {name} {kind}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
