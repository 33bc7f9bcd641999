"""FedAvg that looks at what it averages: a site whose weights cannot be used is left out, and the round goes on.

McMahan et al., "Communication-efficient learning of deep networks from decentralized data", 2017. FedProx differs only
at the clients, so it is this with `proximal-mu` in the train config.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from numpy.typing import NDArray

from fedconformal.engines.flower.federation import Federation
from fedconformal.engines.flower.records import (
    ARRAYS,
    EXAMPLES,
    METRICS,
    check_keys,
    read_arrays,
    read_examples,
    read_metrics,
)
from fedconformal.errors import InputError

Update = tuple[dict[str, NDArray[Any]], int, dict[str, float]]


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
        self,
        server_round: int,
        arrays: ArrayRecord,
        config: ConfigRecord,
        grid: Grid,
    ) -> Iterable[Message]:
        """Ask every site that is there."""
        config["server-round"] = server_round
        self._like = arrays
        content = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        self._sent = self.federation.messages(content, MessageType.TRAIN)
        return self._sent

    def aggregate_train(
        self,
        server_round: int,
        replies: Iterable[Message],
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the weighted mean of what can be used."""
        answers = self.federation.sort_out("train", self._sent, [list(replies)], self._read)
        updates = [answer.value for answer in answers]
        shares = [float(examples) for _, examples, _ in updates]
        mean = {}
        for name, like in self._like.items():
            if not np.issubdtype(np.dtype(like.dtype), np.floating):
                mean[name] = like
                continue
            total = np.zeros(like.shape)
            with np.errstate(over="ignore"):
                for (arrays, _, _), share in zip(updates, shares, strict=True):
                    total += np.multiply(arrays[name], share, dtype=np.float64)
                average = (total / sum(shares)).astype(like.dtype)
            if not np.isfinite(average).all():
                raise InputError(f"train: the mean of {name} is too large for {like.dtype}; try a smaller rate")
            mean[name] = Array(average)
        told = set[str].intersection(*(set(found) for _, _, found in updates)) - {EXAMPLES}
        metrics: dict[str, Any] = {
            name: sum(share * found[name] for (_, _, found), share in zip(updates, shares, strict=True)) / sum(shares)
            for name in sorted(told)
        }
        return ArrayRecord(mean), MetricRecord(metrics)

    def _read(self, content: RecordDict) -> Update:
        check_keys(content, ARRAYS, METRICS)
        record = content[METRICS]
        others = self.metrics if self.metrics is not None else tuple(record) if isinstance(record, MetricRecord) else ()
        metrics = read_metrics(record, {EXAMPLES, *others})
        return read_arrays(content[ARRAYS], self._like), read_examples(metrics, self.max_examples), metrics
