"""The detectors of a watch: an alarm has a stated chance of being false, and says since when."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedconformal._base.arrays import Floats
from fedconformal.monitoring import schema
from fedconformal.monitoring.detectors import LABELLED, Detectors
from fedconformal.monitoring.messages import LAST_DAY

DAYS = np.repeat(np.arange(20), 24)


def noticed(path: Path, calibration: Floats, new: Floats) -> tuple[int, int] | None:
    connection = schema.create(path, {}, [], lambda made: Detectors(made).begin({LABELLED: calibration}))
    changes = Detectors(connection, 0.025)
    for half in (slice(0, 250), slice(250, None)):  # which cuts a day
        changes.update(LABELLED, new[half], DAYS[half])
    found = changes.at(LABELLED, LAST_DAY)[1]
    connection.close()
    return found


@pytest.mark.long
def test_a_change_is_seldom_noticed_where_there_is_none(tmp_path: Path) -> None:
    draws = np.random.default_rng(1)
    raised = [noticed(tmp_path / f"{k}.db", draws.random(300), draws.random(len(DAYS))) is not None for k in range(80)]
    assert sum(raised) <= 8  # 2 are promised; detectors by themselves raise about 26


def test_a_change_is_noticed_and_dated(tmp_path: Path) -> None:
    draws = np.random.default_rng(2)
    new = np.concatenate([draws.random(240), draws.random(240) + 0.4])
    found = noticed(tmp_path / "watch.db", draws.random(300), new)
    assert found is not None
    alarm, since = found
    assert 9 <= since <= 10 <= alarm <= 13
