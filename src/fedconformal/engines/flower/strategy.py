"""Flower's FedAvg strategy with checks of every reply; FedProx is the same with `proximal-mu` in the train config."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from numpy.typing import NDArray

from fedconformal.engines.flower.federation import Check, Federation
from fedconformal.engines.flower.records import is_float, read_arrays, read_examples, read_metrics
from fedconformal.errors import InputError
from fedconformal.training.step import WeightedMean

Update = tuple[dict[str, NDArray[Any]], int, RecordDict]


class CheckedFedAvg(FedAvg):
    """Average arrays of the right keys, shapes and types that are finite and count for a possible number of rows.

    A site whose reply cannot be used is left out, and the round goes on. The mean is taken in double precision, in the
    order of the sites. Arrays of whole numbers stay as they are.

    Parameters
    ----------
    federation
        The sites; it records who took part and who was refused.
    **settings
        Of Flower's FedAvg. Two have other defaults: as many nodes are needed as the federation needs, and nothing is
        evaluated, as sites are asked for coverage later.
    """

    def __init__(self, federation: Federation, **settings: Any) -> None:
        least = dict.fromkeys(("min_train_nodes", "min_evaluate_nodes", "min_available_nodes"), federation.min_sites)
        means = dict.fromkeys(("train_metrics_aggr_fn", "evaluate_metrics_aggr_fn"), mean_metrics)
        super().__init__(**{**least, **means, "fraction_evaluate": 0.0, **settings})
        self.federation = federation
        self._like = ArrayRecord()
        self._sent: list[Message] = []

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask as many sites as FedAvg would, and remember whom."""
        self._like = arrays
        self.federation.wait(self.federation.timeout)  # FedAvg would wait for ever
        return self._limited(super().configure_train(server_round, arrays, config, grid))

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask as many sites as FedAvg would, and remember whom."""
        return self._limited(super().configure_evaluate(server_round, arrays, config, grid))

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the weighted mean of what can be used."""
        answers = self._answers("train", replies, self._read)
        if not answers:
            return None, None
        floats, mean = {name: array.numpy() for name, array in self._like.items() if is_float(array)}, WeightedMean()
        for arrays, examples, _ in answers:
            mean.add(float(examples), {name: arrays[name] for name in floats}, {})
        averaged = {name: Array(array) for name, array in mean.arrays(floats).items()}
        found = ArrayRecord({name: averaged.get(name, array) for name, array in self._like.items()})
        return found, self.train_metrics_aggr_fn([content for *_, content in answers], self.weighted_by_key)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Return the weighted mean of the metrics that can be used."""
        answers = self._answers("evaluate", replies, self._read_evaluation)
        contents = [content for *_, content in answers]
        return self.evaluate_metrics_aggr_fn(contents, self.weighted_by_key) if contents else None

    def _limited(self, messages: Iterable[Message]) -> list[Message]:
        """Let messages live as long as anybody waits for them."""
        self._sent = list(messages)
        for message in self._sent:
            message.metadata.ttl = self.federation.timeout
        return self._sent

    def _answers(self, stage: str, replies: Iterable[Message], read: Check[Update]) -> list[Update]:
        if not self._sent:
            return []
        least = min(self.federation.min_sites, len(self._sent))
        answers = self.federation.read_replies(stage, self._sent, replies, read, least=least)
        return [answer.value for answer in answers]

    def _read(self, content: RecordDict, _site: str) -> Update:
        arrays = read_arrays(_only(content.array_records, "arrays"), self._like)
        return arrays, self._weight(content), content

    def _read_evaluation(self, content: RecordDict, _site: str) -> Update:
        return {}, self._weight(content), content

    def _weight(self, content: RecordDict) -> int:
        record = _only(content.metric_records, "metrics")
        return read_examples(read_metrics(record, {self.weighted_by_key, *record}), key=self.weighted_by_key)


def mean_metrics(contents: list[RecordDict], weighted_by_key: str) -> MetricRecord:
    """Return the weighted means of the metrics that every reply has."""
    mean = WeightedMean()
    for content in contents:
        values: dict[str, Any] = dict(_only(content.metric_records, "metrics"))
        weight = float(values.pop(weighted_by_key))
        mean.add(weight, {}, {name: values[name] for name in sorted(values)})
    found: dict[str, Any] = mean.numbers()
    return MetricRecord(found)


def _only(records: Any, what: str) -> Any:
    """Return the one record of a kind, whatever it is called: FedAvg asks for no name."""
    if len(records) != 1:
        raise InputError(f"holds {len(records)} records of {what}, expected 1")
    return next(iter(records.values()))
