"""Crafted files of watches: each is refused in one line, or usable; none hangs or takes much memory."""

import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.errors import InputError, StoreError
from fedconformal.monitoring.combine import combine
from fedconformal.monitoring.limits import limits_of
from fedconformal.monitoring.store import Watch
from fedconformal.report.watch import combined_page
from tests.monitoring.watches import START, answered, predictor, rows_of, true

DAY = 86_400
ODD: list[Any] = [-1, 2**62, 1e308, -1e308, float("inf"), "", "999", "[0]", "[99]", "[" * 5000, None]
ODD += [b"", b"\xff" * 33, b"[]", b"1000000000", b"-5", b"\0" * 7]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A watch over sites and groups with detectors, outcomes that came, wait and are early, and a period sent."""
    path = tmp_path_factory.mktemp("good") / "w.db"
    rule = predictor(fc.EverySite())
    probs, labels = rows_of(9, 60)
    scores = rule.score.evaluate_all(probs.astype(np.float32)).min(axis=1)
    with Watch.start(path, rule, limits_of(rule), scores=scores) as watch:
        ids = [f"p{i}" for i in range(60)]
        rows = answered(ids, sites=["a", "b"] * 30, groups={"sex": ["F", "M"] * 30}, scores=scores)
        watch.add(rows, true([*ids[:40], "early"], [*labels[:40], 1], time=START + DAY))
        watch.send()
    return path.read_bytes()


def use(path: Path) -> None:
    """Do all that can be done with a watch."""
    with Watch.open(path) as watch:
        watch.status()
        combined_page(combine(watch.history(), one_watch=True))
        rows = answered(["y", "z"], time=START + 9 * DAY, sites=["a", "c"], groups={"sex": ["F", "X"]})
        watch.add(rows, true(["z", "p50", "early"], [0, 1, 2], time=START + 9 * DAY))
        watch.send()
        watch.purge(20_800)


def damage(path: Path, good: bytes, rng: random.Random) -> None:
    """Change some bytes of the file, or a value of a table."""
    data = bytearray(good)
    if rng.random() < 0.5:
        for _ in range(rng.randint(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data)
        return
    path.write_bytes(data)
    raw = sqlite3.connect(path)
    tables = [name for (name,) in raw.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    table = rng.choice(tables)
    columns = [row[1] for row in raw.execute(f"PRAGMA table_info({table})")]
    try:
        raw.execute(f"UPDATE {table} SET {rng.choice(columns)} = ?", (rng.choice(ODD),))  # noqa: S608
        raw.commit()
    except sqlite3.Error:
        raw.rollback()
    raw.close()


def execute(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(script)


def test_damaged_files_are_refused_in_one_line_or_usable(good: bytes, tmp_path: Path) -> None:
    outcomes = set()
    for seed in range(50):
        path = tmp_path / f"{seed}.db"
        damage(path, good, random.Random(seed))
        start = time.process_time()
        try:
            use(path)
            outcomes.add("usable")
        except InputError as error:
            outcomes.add(f"refused in {len(str(error).splitlines())} line")
        assert time.process_time() - start < 10
    assert outcomes == {"usable", "refused in 1 line"}


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT 'k' AS key, zeroblob(1e9) AS value FROM c"


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TRIGGER t AFTER INSERT ON rows BEGIN DELETE FROM streams; END",
        f"DROP TABLE meta; CREATE VIEW meta AS {ENDLESS}",  # rows for ever, or of any size
        "DROP TABLE tallies",
        "ALTER TABLE meta ADD COLUMN more TEXT",
    ],
)
def test_another_schema_is_refused(good: bytes, tmp_path: Path, script: str) -> None:
    path = tmp_path / "w.db"
    path.write_bytes(good)
    execute(path, script)
    with pytest.raises(InputError, match="is not the file of a watch"):
        Watch.open(path)


COUNTS = """
WITH RECURSIVE c(x) AS (SELECT 99 UNION ALL SELECT x + 1 FROM c)
INSERT INTO tallies SELECT x, 9, 0, 0, 0, 0 FROM c LIMIT 100000
"""


def test_many_counts_take_no_long_time(good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    path.write_bytes(good)
    execute(path, COUNTS)
    start = time.process_time()
    use(path)
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    "script",
    [
        "UPDATE meta SET value = CAST(replace(hex(zeroblob(2000000)), '00', ' ') || value AS BLOB)",
        "UPDATE meta SET value = CAST('{\"width\": 1000000000}' AS BLOB) WHERE key = 'state'",
        "DELETE FROM streams",
        "UPDATE streams SET alarm_day = 1000000000000000",
    ],
)
def test_impossible_values_are_not_believed(tmp_path: Path, script: str) -> None:
    rule = fc.calibrate([fc.Summary.of_scores(np.linspace(0, 1, 200), score=fc.LAC(), site="a")])
    path = tmp_path / "w.db"
    Watch.start(path, rule, limits_of(rule)).__exit__()
    execute(path, script)
    with pytest.raises(StoreError, match="is damaged"), Watch.open(path) as watch:
        watch.sent()
