"""The messages of a watch over Flower: read strictly, under the site's policy, and the page is that of files."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="running on Flower needs flwr")

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from msgspec.structs import replace

from fedconformal.engines.flower import Federation, InProcessGrid, watch, watch_reply
from fedconformal.engines.flower.records import ASK, site_of
from fedconformal.errors import InputError
from fedconformal.federated.ask import MAX_BYTES
from fedconformal.monitoring.messages import Period, read_periods, write_periods
from fedconformal.privacy.policy_file import VARIABLE
from fedconformal.report import watch_page
from tests.engines.flower.tools import Fault, grid
from tests.monitoring.streams import PREDICTOR, START, messages

DIGEST = PREDICTOR.hex()
RATES = {"site-0": [0.1] * 20, "site-1": [0.1] * 10 + [0.4] * 10, "site-2": [0.1] * 20}


def watching_app() -> ClientApp:
    """Return an app of somebody else's whose sites keep a watch."""
    app = ClientApp()

    @app.query("watch")
    def watch(msg: Message, context: Context) -> Message:
        site = site_of(context).name
        return watch_reply(msg, context, lambda: messages(site, RATES[site]))

    return app


def test_the_page_is_that_of_files() -> None:
    federation = Federation(grid(3, app=watching_app()))
    found = watch(federation, DIGEST)
    by_hand = [period for site, rates in RATES.items() for period in messages(site, rates)]
    assert list(found.periods) == by_hand
    assert found.combined().all_rows.named == ("site-1",)
    assert watch_page(found.periods, refused=found.refused) == watch_page(by_hand)
    assert read_periods(found.to_bytes()) == by_hand
    (stage,) = federation.to_list()
    assert stage["stage"] == "watch"
    assert stage["took_part"] == dict.fromkeys(RATES, 1)


def sent(change: Any) -> Fault:
    """Change the messages of a reply."""

    def fault(reply: Message) -> None:
        record: Any = reply.content["answer"]
        record["data"] = write_periods([change(one) for one in read_periods(record["data"])])

    return fault


def put(**values: Any) -> Fault:
    return lambda reply: reply.content["answer"].update(values)


def fewer(period: Period) -> Period:
    """Take a miss from the first message only, which the next one contradicts."""
    if period.first > START:
        return period
    stream = period.streams[0]
    return replace(period, streams=(replace(stream, after=replace(stream.after, known=stream.after.known + 9)),))


FAULTS: dict[str, tuple[Fault, str]] = {
    "another predictor": (sent(lambda one: replace(one, predictor=bytes(32))), "watches the predictor 0000000000"),
    "another site": (sent(lambda one: replace(one, site="site-0")), "is site-2 and sent messages of site-0"),
    "contradiction": (sent(fewer), "messages disagree about the end of 2026-01-01"),
    "cut": (put(data=b"\x09\0\0\0abc"), "ends within a message"),
    "too large": (put(data=bytes(MAX_BYTES + 1)), f"more than {MAX_BYTES}"),
    "another format": (put(format="fcw9"), "no message in the format fcw1"),
    "no bytes": (put(data="text"), "no message in the format fcw1"),
    "one key more": (put(more=1), "no message in the format fcw1"),
    "nothing": (lambda reply: reply.content.clear(), "holds the records"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_site_is_refused_and_never_the_run(name: str) -> None:
    fault, words = FAULTS[name]
    found = watch(Federation(grid(3, {2: fault}, watching_app())), DIGEST)
    assert {period.site for period in found.periods} == {"site-0", "site-1"}
    ((site, why),) = found.refused
    assert words in why
    assert f"<td>{site}</td><td>left out</td>" in watch_page(found.periods, refused=found.refused)


def test_new_messages_must_not_contradict_earlier_ones() -> None:
    earlier = messages("site-2", [0.5] * 3, seed=9)
    found = watch(Federation(grid(3, app=watching_app())), DIGEST, earlier=earlier)
    ((_, why),) = found.refused
    assert why.startswith("site-2: messages disagree")
    assert [period for period in found.periods if period.site == "site-2"] == earlier
    same = messages("site-2", RATES["site-2"])
    again = watch(Federation(grid(3, app=watching_app())), DIGEST, earlier=same[:5])
    assert again.refused == ()
    assert again.combined().all_rows.sites == 3


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


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('kinds = ["ranks"]', "this is of the kind watch"),
        ("sums_only = true", "this is of the kind watch"),
        ("least_sites = 2", "this is over 1"),
        ("largest_epsilon = 1.0", "this has no noise"),
    ],
)
def test_a_policy_forbids_it(file_app: ClientApp, line: str, why: str) -> None:
    Path("policy.toml").write_text(line, "utf-8")
    with pytest.raises(InputError, match="at least 1 are needed") as error:
        ask(file_app, messages("a", [0.1] * 4))
    assert f"policy.toml, line 1: {line}, and {why}" in str(error.value)


def test_a_policy_bounds_the_outcomes_of_a_message(file_app: ClientApp) -> None:
    Path("policy.toml").write_text('least_rows = 30\nkinds = ["watch"]', "utf-8")
    assert ask(file_app, messages("a", [0.1] * 4, rows=100)) == ""
    assert "least_rows = 30, and this site has fewer" in ask(file_app, messages("a", [0.1] * 4, rows=10))
    grouped = messages("a", [0.1] * 4, rows=60, groups={"sex=F": 1.0})  # a third of the rows
    assert "least_rows = 30, and this site has fewer" in ask(file_app, grouped)


def test_the_coordinator_chooses_no_days(file_app: ClientApp) -> None:
    """It would read the outcomes of one day from two answers; the site sends the periods that it has fixed."""
    Path("a.fcw").write_bytes(write_periods(messages("a", [0.1] * 4, rows=100)))
    carried, answers = InProcessGrid(file_app, [{"site": "a", "watch": "a.fcw"}]), set()
    for days in ({}, {"first": START, "last": START}, {"last": START + 1}, {"first": START + 2}):
        asked = RecordDict({ASK: ConfigRecord({"predictor": DIGEST, **days})})
        reply = carried.deliver(Message(asked, 2, "query.watch"))
        answers.add(dict(reply.content.config_records["answer"])["data"])
    assert len(answers) == 1


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


def test_a_question_that_is_none() -> None:
    for bad in ("", "00", "zz" * 32):
        with pytest.raises(InputError, match="names no predictor"):
            watch(Federation(grid(3, app=watching_app())), bad)
