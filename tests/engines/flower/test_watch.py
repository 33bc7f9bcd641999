"""The messages of a watch over Flower: read strictly, under the site's policy, and the page is that of files."""

from pathlib import Path

import msgspec
import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from msgspec.structs import replace

from fedconformal.engines.flower import Federation, InProcessGrid, watch, watch_reply
from fedconformal.engines.flower.records import ASK
from fedconformal.errors import InputError
from fedconformal.federated.watch import WatchQuestion
from fedconformal.monitoring.messages import Period, write_periods
from fedconformal.privacy.policy import VARIABLE
from tests.monitoring.streams import PREDICTOR, START, messages

DIGEST = PREDICTOR.hex()


@pytest.fixture
def file_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClientApp:
    """Return an app that answers from the file that the node config names, under a policy."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, "policy.toml")
    Path("policy.toml").write_text("", "utf-8")
    app = ClientApp()
    app.query("watch")(watch_reply)
    return app


def ask(app: ClientApp, periods: list[Period]) -> str:
    """Ask two sites, one of which has these messages; return why it is refused."""
    Path("b.fcw").write_bytes(write_periods(messages("b", [0.1] * 4, rows=100)))
    Path("a.fcw").write_bytes(write_periods(periods))
    nodes = [{"site": name, "watch": f"{name}.fcw"} for name in "ab"]
    found = watch(Federation(InProcessGrid(app, nodes), min_sites=1), DIGEST)
    return "; ".join(one.reason for one in found.refused)


def test_a_policy_bounds_the_outcomes_of_a_message(file_app: ClientApp) -> None:
    Path("policy.toml").write_text('least_rows = 30\nkinds = ["watch"]', "utf-8")
    assert ask(file_app, messages("a", [0.1] * 4, rows=100)) == ""
    assert "least_rows = 30, and this site has fewer" in ask(file_app, messages("a", [0.1] * 4, rows=10))
    grouped = messages("a", [0.1] * 4, rows=60, groups={"sex=F": 1.0})  # a third of the rows
    assert "least_rows = 30, and this site has fewer" in ask(file_app, grouped)


def test_the_coordinator_chooses_no_days(file_app: ClientApp) -> None:
    """It would read the outcomes of one day from two answers; the site sends the periods that it has fixed."""
    Path("a.fcw").write_bytes(write_periods(messages("a", [0.1] * 4, rows=100)))
    carried = InProcessGrid(file_app, [{"site": "a", "watch": "a.fcw"}])
    honest = msgspec.msgpack.decode(WatchQuestion(predictor=PREDICTOR).to_bytes())
    for days in ({}, {"first": START, "last": START}, {"last": START + 1}):
        asked = RecordDict({ASK: ConfigRecord({"data": msgspec.msgpack.encode(honest | days)})})
        reply = carried.deliver(Message(asked, 2, "query.watch"))
        assert reply.has_error() == bool(days)


def test_periods_that_overlap_stay_here(file_app: ClientApp) -> None:
    """All days of the first ten, and of the first nine: the difference is one day, with fewer rows than may leave."""
    Path("policy.toml").write_text("least_rows = 50", "utf-8")
    days = messages("a", [0.1] * 10, rows=20)
    nine, ten = (
        replace(days[0], last=last.last, streams=(replace(days[0].streams[0], after=last.streams[0].after),))
        for last in days[8:]
    )
    assert "two messages overlap on 2026-01-01" in ask(file_app, [nine, ten])
    assert ask(file_app, [ten, ten]) == ""


def test_what_a_site_cannot_answer_it_says_without_its_paths(file_app: ClientApp, tmp_path: Path) -> None:
    assert "it has those of c, and is a" in ask(file_app, messages("c", [0.1]))
    other = [replace(one, predictor=bytes(32)) for one in messages("a", [0.1])]
    assert "watches the predictor 000000000000" in ask(file_app, other)
    grid = InProcessGrid(file_app, [{"site": "a", "watch": str(tmp_path / "none.fcw")}, {"site": "b"}])
    with pytest.raises(InputError) as error:
        watch(Federation(grid, min_sites=1), DIGEST)
    assert "none.fcw: cannot be read" in str(error.value)
    assert str(tmp_path) not in str(error.value)
    assert "this site names no watch" in str(error.value)
