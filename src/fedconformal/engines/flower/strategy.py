"""Flower's own FedAvg strategy, made to check what it averages: for an app that runs Flower's strategies itself.

A site whose weights cannot be used is left out, and the round goes on. The mean is that of `fedconformal.federated`.
FedProx differs only at the clients, so it is this with `proximal-mu` in the train config.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from numpy.typing import NDArray

from fedconformal.engines.flower.federation import Federation
from fedconformal.engines.flower.records import EXAMPLES, METRICS, is_float, read_update
from fedconformal.federated.mean import WeightedMean


class CheckedFedAvg(FedAvg):
    """Average what has the right keys, shapes and types, is finite, and counts for a possible number of rows.

    The mean is taken in double precision, in the order of the sites. Arrays of whole numbers stay as they are.

    Args:
        federation: whom to ask; it keeps who took part and who was refused.
        metrics: what every reply has to have beside `num-examples`, and nothing else; by default any finite numbers.
        max_examples: no site has more rows than this.
    """

    def __init__(
        self, federation: Federation, *, metrics: tuple[str, ...] | None = None, max_examples: int = 10**8
    ) -> None:
        super().__init__(min_available_nodes=federation.min_sites, min_train_nodes=federation.min_sites)
        self.fraction_evaluate = 0.0  # sites are asked for coverage once there are sets
        self.federation = federation
        self.metrics = metrics
        self.max_examples = max_examples
        self._like = ArrayRecord()
        self._sent: list[Message] = []

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask every site that is there."""
        config["server-round"] = server_round
        self._like = arrays
        content = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        self._sent = self.federation.messages(content, MessageType.TRAIN)
        return self._sent

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the weighted mean of what can be used."""
        answers = self.federation.read_replies("train", self._sent, [list(replies)], self._read)
        floats = {name: array.numpy() for name, array in self._like.items() if is_float(array)}
        mean = WeightedMean()
        for arrays, examples, metrics in (answer.value for answer in answers):
            numbers = {name: metrics[name] for name in sorted(metrics) if name != EXAMPLES}
            mean.add(float(examples), {name: arrays[name] for name in floats}, numbers)
        averaged = {name: Array(array) for name, array in mean.arrays(floats).items()}
        found: dict[str, Any] = mean.numbers()
        return ArrayRecord({name: averaged.get(name, array) for name, array in self._like.items()}), MetricRecord(found)

    def _read(self, content: RecordDict) -> tuple[dict[str, NDArray[Any]], int, dict[str, float]]:
        names = self.metrics
        if names is None:
            record = content.get(METRICS)
            names = tuple(record) if isinstance(record, MetricRecord) else ()
        return read_update(content, self._like, names, most=self.max_examples)
