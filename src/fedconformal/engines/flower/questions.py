"""The server's side of the other questions on Flower: for a temperature, for coverage, and to keep the predictor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from fedconformal.calibration.predictor import Predictor
from fedconformal.engines.flower.federation import Answer, Federation
from fedconformal.engines.flower.records import (
    ARRAYS,
    ASK,
    EXAMPLES,
    FULL,
    METRICS,
    check_keys,
    read_examples,
    read_metrics,
)
from fedconformal.federated.ask import Ask
from fedconformal.federated.evaluation import Counts
from fedconformal.federated.temperature import Sums, check


def ask_temperature(federation: Federation, arrays: ArrayRecord) -> Ask[Sequence[float], Sums]:
    """Ask for sums over the rows that the sites keep for the temperature, with this model."""

    def ask(points: Sequence[float]) -> list[Answer[Sums]]:
        def read(content: RecordDict) -> Sums:
            check_keys(content, METRICS)
            record: dict[str, Any] = dict(content.metric_records[METRICS])
            read_examples(record)
            return check({name: record[name] for name in record if name != EXAMPLES}, points)

        content = RecordDict({ARRAYS: arrays, ASK: ConfigRecord({"points": list(points)})})
        return federation.ask("temperature", content, "query.temperature", read)

    return ask


def ask_evaluation(federation: Federation, arrays: ArrayRecord) -> Ask[Predictor, Counts]:
    """Ask for counts on the sites' test rows, with this model."""

    def ask(predictor: Predictor) -> list[Answer[Counts]]:
        content = RecordDict({ARRAYS: arrays, ASK: ConfigRecord({"predictor": predictor.to_bytes()})})
        return federation.ask("evaluate", content, "evaluate", _counts)

    return ask


def _counts(content: RecordDict) -> Counts:
    check_keys(content, METRICS)
    sent: Any = content[METRICS]
    full = [FULL] if FULL in sent else []  # an older site does not say how many sets hold every label
    values: dict[str, Any] = read_metrics(sent, [EXAMPLES, "covered", "labels", "correct", *full])
    rows = read_examples(values)
    return Counts(rows, values["covered"], values["labels"], values["correct"], values.get(FULL)).check()


def send_predictor(federation: Federation, predictor: Predictor) -> None:
    """Send every site the predictor, to keep."""
    content = RecordDict({ASK: ConfigRecord({"predictor": predictor.to_bytes()})})
    federation.ask("broadcast", content, "query.predictor", lambda reply: check_keys(reply, METRICS))
