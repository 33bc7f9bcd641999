"""Flower's FedAvg strategy with checks of every reply; FedProx is the same with `proximal-mu` in the train config."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from numpy.typing import NDArray

from fedconformal.engines.flower.federation import Federation
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
        super().__init__(**{**least, "train_metrics_aggr_fn": mean_metrics, "fraction_evaluate": 0.0, **settings})
        self.federation = federation
        self._like = ArrayRecord()
        self._sent: list[Message] = []

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask as many sites as FedAvg would, and remember whom."""
        self._like = arrays
        self.federation.wait(self.federation.timeout)  # FedAvg would wait for ever
        self._sent = list(super().configure_train(server_round, arrays, config, grid))
        for message in self._sent:
            message.metadata.ttl = self.federation.timeout  # as long as anybody waits for it
        return self._sent

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the weighted mean of what can be used."""
        if not self._sent:
            return None, None
        least = min(self.federation.min_sites, len(self._sent))
        answers = [
            answer.value
            for answer in self.federation.read_replies("train", self._sent, replies, self._read, least=least)
        ]
        floats, mean = {name: array.numpy() for name, array in self._like.items() if is_float(array)}, WeightedMean()
        for arrays, examples, _ in answers:
            mean.add(float(examples), {name: arrays[name] for name in floats}, {})
        averaged = {name: Array(array) for name, array in mean.arrays(floats).items()}
        found = ArrayRecord({name: averaged.get(name, array) for name, array in self._like.items()})
        return found, self.train_metrics_aggr_fn([content for *_, content in answers], self.weighted_by_key)

    def _read(self, content: RecordDict, _site: str) -> Update:
        arrays = read_arrays(_only(content.array_records, "arrays"), self._like)
        record = _only(content.metric_records, "metrics")
        values = read_metrics(record, {self.weighted_by_key, *record})
        return arrays, read_examples(values, self.weighted_by_key), content


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
