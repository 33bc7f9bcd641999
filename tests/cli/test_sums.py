"""A sums session by files, from the invitation to the predictor."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base import files
from fedconformal.cli import sums as module
from fedconformal.privacy import new_key, public_key, read_ledger
from tests.cli.command import Command

NAMES = ["clinic-a", "clinic-b", "clinic-c", "clinic-d", "clinic/e"]  # four of them are the quorum


@pytest.fixture
def scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    monkeypatch.chdir(tmp_path)
    found = []
    for k, name in enumerate(NAMES):
        part = np.random.default_rng(k).random(40)
        summary = fc.summarize(part, "exact", site=name, score=fc.LAC(), temperature=1.5)
        Path(f"{k}.fcs").write_bytes(summary.to_bytes())
        found.append(part)
    return found


def joined(command: Command, *options: str) -> list[str]:
    command.ok("sums", "start", "session", *options)
    for k in range(5):
        command.ok(
            "sums", "answer", "session/invite.fcm", "--summary", f"{k}.fcs", "--state", f"{k}.st", "-o", f"{k}.fcm"
        )
    return [f"{k}.fcm" for k in range(5)]


def step(command: Command, present: list[int]) -> str:
    """Let these sites answer what the coordinator wrote, then let it go on; return what it says."""
    for k in present:
        incoming = f"session/to-{NAMES[k].replace('/', '_')}.fcm"
        command.ok("sums", "answer", incoming, "--state", f"{k}.st", "-o", f"{k}.fcm")
    return command.ok("sums", "advance", "session", *[f"{k}.fcm" for k in present]).out


def test_the_whole_way(scores: list[np.ndarray], command: Command) -> None:
    command.ok("sums", "advance", "session", *joined(command))
    assert Path("0.st").stat().st_mode & 0o077 == 0
    assert Path("session/coordinator.state").stat().st_mode & 0o077 == 0
    for _ in range(6):
        step(command, [0, 1, 2, 3, 4])
    said = step(command, [0, 1, 2, 3, 4])
    assert "bytes came from 5 sites in 8 exchanges. The paper quotes O(K/e) bits in all" in said
    predictor = fc.load("session/predictor.json")
    plain = fc.calibrate([fc.Summary.from_bytes(Path(f"{k}.fcs").read_bytes()) for k in range(5)])
    assert 0 <= float(predictor.certificate.limit) - float(plain.threshold) < 0.05
    assert "rounded up to the edge of a cell, as its cell has fewer than 50 rows" in said
    assert predictor.score == fc.LAC()
    assert predictor.certificate.temperature == 1.5
    assert predictor.certificate.status == "certified"
    assert [path.name for path in Path("session").iterdir() if path.suffix == ".state"] == []
    assert "fedconformal sums close" in said


def test_to_the_last_bit(scores: list[np.ndarray], command: Command) -> None:
    said = command.ok("sums", "start", "session", "--exact").out
    assert "who knows a row can often tell from these sums that it is in there" in said
    assert "with --epsilon the sum itself is differentially private" in said
    Path("session/coordinator.state").unlink()
    command.ok("sums", "advance", "session", *joined(command, "--exact"))
    for _ in range(12):
        step(command, [0, 1, 2, 3, 4])
    assert "exact to the last bit" in step(command, [0, 1, 2, 3, 4])
    plain = fc.calibrate([fc.Summary.from_bytes(Path(f"{k}.fcs").read_bytes()) for k in range(5)])
    assert fc.load("session/predictor.json").certificate.limit == plain.threshold
    assert "--exact does not go with" in command("sums", "start", "other", "--exact", "--epsilon", "1").err


def test_states_are_wiped_when_a_session_ends(
    scores: list[np.ndarray], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    command.ok("sums", "advance", "session", *joined(command, "--exact"))
    wiped: list[str] = []

    def watched(path: Path) -> None:
        wiped.append(str(path))
        files.wipe(path)

    monkeypatch.setattr(module, "wipe", watched)
    for present in (*[[0, 1, 2, 3, 4]] * 12, [0, 1, 2, 3]):
        step(command, present)
    assert wiped == []
    step(command, [0, 1, 2, 3])  # the last round's shares are open: nothing can be asked any more
    assert sorted(wiped) == ["0.st", "1.st", "2.st", "3.st", "session/coordinator.state"]
    assert not any(Path(name).exists() for name in wiped)
    assert command.ok("sums", "close", "4.st").out == "wiped 4.st: its keys and scores are gone\n"
    assert not Path("4.st").exists()
    command.ok("sums", "start", "other")
    command.ok("sums", "close", "other", "--json")
    assert not Path("other/coordinator.state").exists()
    Path("probs.csv").write_text("0.5,0.5\n")
    for path in ("probs.csv", "0.fcs", "none.st", "session"):
        done = command("sums", "close", path)
        assert done.code == 2
        assert path in done.err
    assert Path("probs.csv").exists()
    assert Path("0.fcs").exists()


def test_a_site_may_drop_out(scores: list[np.ndarray], command: Command) -> None:
    command.ok("sums", "advance", "session", *joined(command))
    for present in (*[[0, 1, 2, 3, 4]] * 4, [0, 1, 2, 3]):  # after the first sum: the search stops where it is
        step(command, present)
    certificate = fc.load("session/predictor.json").certificate
    plain = fc.calibrate([fc.Summary.from_bytes(Path(f"{k}.fcs").read_bytes()) for k in range(5)])
    assert plain.threshold <= certificate.limit < np.inf
    assert certificate.coverage_at_most == 1.0


def test_a_lost_site_is_told_at_once(scores: list[np.ndarray], command: Command) -> None:
    """One of five is lost before the first sum: every set will hold every label, unless one starts again without it."""
    said = command.ok("sums", "advance", "session", *joined(command)).out
    assert "shares of the rows, by their own claim: clinic-a 20.0%, clinic-b 20.0%" in said
    step(command, [0, 1, 2, 3, 4])
    done = command.ok("sums", "advance", "session", *answered(command, range(4)), "--json")
    assert "site 'clinic/e' is lost and held 20.0% of the rows" in done.err
    found = json.loads(done.out)
    assert found["shares"] == dict.fromkeys(NAMES, 0.2)
    assert len(found["lost"]) == 3
    assert "every label will be in every set" in found["lost"][1]
    assert "start another session with the others" in found["lost"][2]
    for _ in range(3):  # they answer again, sign, and reveal
        done = command.ok("sums", "advance", "session", *answered(command, range(4)))
    assert "clinic/e (0.2 of the rows) dropped out, and its rows count as too large" in done.err
    assert "threshold inf" in done.out


def answered(command: Command, present: Iterable[int]) -> list[str]:
    """Let these sites answer what the coordinator wrote."""
    for k in present:
        command.ok("sums", "answer", f"session/to-{NAMES[k]}.fcm", "--state", f"{k}.st", "-o", f"{k}.fcm")
    return [f"{k}.fcm" for k in present]


def test_a_second_session_with_other_sites_is_refused(scores: list[np.ndarray], command: Command) -> None:
    """A site with a ledger remembers with whom its rows were summed."""
    Path("ledger.json").write_text('{"budget": 1.5}')

    def join(session: str, present: Iterable[int]) -> None:
        command.ok("sums", "start", session)
        for k in present:
            files = ["--summary", f"{k}.fcs", "--state", f"{session}-{k}.st", "-o", f"{k}.fcm"]
            kept = ["--ledger", "ledger.json"] if k == 0 else []
            command.ok("sums", "answer", f"{session}/invite.fcm", *files, *kept)
        command.ok("sums", "advance", session, *[f"{k}.fcm" for k in present])

    def answer(session: str, k: int) -> list[str]:
        return ["sums", "answer", f"{session}/to-{NAMES[k]}.fcm", "--state", f"{session}-{k}.st", "-o", f"{k}.fcm"]

    join("first", range(4))
    joining = ["sums", "answer", "first/invite.fcm", "--summary", "0.fcs", "--state", "x.st", "-o", "x.fcm"]
    assert "joined: a cell is split only if its parts have 6.25 rows on average" in command.ok(*joining).out
    assert read_ledger(Path("ledger.json")).sessions == {}
    while not Path("first/predictor.json").exists():
        for k in range(4):
            command.ok(*answer("first", k))
        command.ok("sums", "advance", "first", *[f"{k}.fcm" for k in range(4)])
    assert len(read_ledger(Path("ledger.json")).sessions) == 2
    join("same", range(4))
    command.ok(*answer("same", 0))
    join("fewer", range(3))
    refused = command(*answer("fewer", 0))
    assert refused.code == 2
    assert "site 'clinic-a' has shown a sum of these rows with other sites" in refused.err
    command.ok(*answer("fewer", 1))  # this one has no ledger, and forgets
    again = command(*answer("fewer", 1), "--ledger", "ledger.json")
    assert "--ledger goes with --summary; later steps know it" in again.err


def test_a_site_may_vanish_after_its_answer_while_another_is_out(scores: list[np.ndarray], command: Command) -> None:
    command.ok("sums", "advance", "session", *joined(command, "--alpha", "0.3"))
    step(command, [0, 1, 2, 3, 4])
    for _ in range(3):
        step(command, [0, 1, 2, 3])  # the first round: one does not answer, the others do so again, and sign
    step(command, [0, 1, 2])  # and another one reveals nothing
    assert not Path("session/predictor.json").exists()
    assert not Path("session/to-clinic-d.fcm").exists()
    step(command, [0, 1, 2])  # the rest opens the shares that it holds
    certificate = fc.load("session/predictor.json").certificate
    plain = fc.calibrate([fc.Summary.from_bytes(Path(f"{k}.fcs").read_bytes()) for k in range(5)], alpha=0.3)
    assert plain.threshold <= certificate.limit < np.inf
    assert certificate.privacy is not None
    assert certificate.privacy["dropped"] == [
        {"site": "clinic-d", "when": "after its answer in round 1", "share": 0.2},
        {"site": "clinic/e", "when": "before its answer in round 1", "share": 0.2},
    ]
    assert certificate.privacy["precision"]["stopped"] == "a site was lost after the first sum"


def test_refusals(scores: list[np.ndarray], command: Command) -> None:
    def fails(problem: str, *arguments: str) -> None:
        done = command("sums", *arguments)
        assert done.code == 2
        assert problem in done.err

    answers = joined(command)
    fails("holds a session already", "start", "session")
    fails("every-client needs every site's own counts", "start", "other", "--guarantee", "every-client")
    fails("the first step needs --summary", "answer", "session/invite.fcm", "--state", "x.st", "-o", "x.fcm")
    fails("has joined a session", "answer", "session/invite.fcm", "--state", "0.st", "-o", "0.fcm")
    fails("0.fcs: this is not a message of a sums session", "advance", "session", "0.fcs")
    Path("torn.fcm").write_bytes(Path("1.fcm").read_bytes()[:-3])
    fails("torn.fcm: ", "advance", "session", *answers[:1], "torn.fcm", *answers[2:])
    fails("fewer than 3", "advance", "session", *answers[:2])
    Path("ranks.fcs").write_bytes(fc.summarize(np.linspace(0, 1, 500), site="r").to_bytes())
    needs_exact = ["answer", "session/invite.fcm", "--summary", "ranks.fcs", "--state", "r.st", "-o", "r.fcm"]
    fails("--kind exact", *needs_exact)
    Path("bad.fcm").write_bytes(b"\x93\x01")
    fails("bad.fcm: this is not a file of a sums session", "answer", "bad.fcm", "--state", "0.st", "-o", "0.fcm")
    command.ok("sums", "advance", "session", *answers)
    fails("expected the message Deposit", "advance", "session", *answers)
    to_a = ["answer", "session/to-clinic-a.fcm", "--state", "0.st", "-o", "0.fcm"]
    command.ok("sums", *to_a)
    fails("has not joined yet, or has the roster already", *to_a)


def test_a_step_that_broke_off_is_finished_and_not_taken_twice(
    scores: list[np.ndarray], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sites must not be told two different lists of who answered."""
    answers = joined(command)
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_secret", broken)
        assert "the disk is full" in command("sums", "advance", "session", *answers).err
    assert not list(Path("session").glob("to-*.fcm"))  # nothing went out, so it may be taken again
    command.ok("sums", "advance", "session", *answers)
    for k in range(5):
        name = NAMES[k].replace("/", "_")
        command.ok("sums", "answer", f"session/to-{name}.fcm", "--state", f"{k}.st", "-o", f"{k}.fcm")
    with monkeypatch.context() as patch:
        patch.setattr(module, "publish", lambda *_: [])
        command.ok("sums", "advance", "session", *answers)
    again = command("sums", "advance", "session", *answers)
    assert again.code == 2
    assert "this step was taken before and broke off; send" in again.err
    assert len(list(Path("session").glob("to-*.fcm"))) == 5
    assert not list(Path("session").glob("to-*.fcm.*"))
    for _ in range(6):
        step(command, [0, 1, 2, 3, 4])
    assert fc.load("session/predictor.json").certificate.status == "certified"


def broken(*_: object) -> None:
    raise fc.InputError("the disk is full")


def test_with_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    """One round, each site's ledger charged as it joins, and a certificate with epsilon."""
    pytest.importorskip("opendp", reason="noise needs opendp")
    monkeypatch.chdir(tmp_path)
    for k in range(4):
        summary = fc.summarize(np.random.default_rng(k).random(600), "exact", site=f"clinic-{k}", score=fc.LAC())
        Path(f"{k}.fcs").write_bytes(summary.to_bytes())
        Path(f"{k}.json").write_text('{"budget": 1.5, "entries": []}')
    command.ok("sums", "start", "session", "--epsilon", "1")

    def join(k: int, state: str) -> list[str]:
        files = ["--summary", f"{k}.fcs", "--state", state, "-o", f"{k}.fcm", "--ledger", f"{k}.json"]
        return ["sums", "answer", "session/invite.fcm", *files]

    for k in range(4):
        assert "joined for epsilon 1" in command.ok(*join(k, f"{k}.st")).out
    assert [(e.site, e.epsilon, e.purpose) for e in read_ledger(Path("0.json")).entries] == [
        ("clinic-0", 1.0, "noisy sum")
    ]
    again = command(*join(0, "other.st"))
    assert again.code == 2
    assert "'clinic-0' has spent 1 of 1.5; 1 more is over its budget" in again.err
    assert not Path("other.st").exists()
    command.ok("sums", "advance", "session", *[f"{k}.fcm" for k in range(4)])
    for present in (4, 4, 4, 3, 3):  # one vanishes after its answer, noise and all
        for k in range(present):
            command.ok("sums", "answer", f"session/to-clinic-{k}.fcm", "--state", f"{k}.st", "-o", f"{k}.fcm")
        done = command.ok("sums", "advance", "session", *[f"{k}.fcm" for k in range(present)])
    assert "epsilon 1 for replacing one calibration row of one site" in done.out
    certificate = fc.load("session/predictor.json").certificate
    assert certificate.privacy is not None
    assert (certificate.privacy["honest_sites"], certificate.privacy["answered_sites"]) == (2, 4)
    assert "clinic-3 dropped out after its answer in round 1" in done.out
    assert certificate.coverage_at_least >= 0.9
    assert 0.9 <= float(certificate.limit) <= 1


def test_noise_that_too_few_scores_cannot_bear(scores: list[np.ndarray], command: Command) -> None:
    Path("grid.csv").write_text("0.5\n0.9\n1\ninf\n")
    command.ok("sums", "start", "session", "--epsilon", "0.1", "--grid", "grid.csv")
    for k in range(3):
        files = ["--summary", f"{k}.fcs", "--state", f"{k}.st", "-o", f"{k}.fcm"]
        command.ok("sums", "answer", "session/invite.fcm", *files)
    done = command.ok("sums", "advance", "session", "0.fcm", "1.fcm", "2.fcm")
    assert "cannot be promised from 120 scores with epsilon=0.1" in done.err
    assert fc.load("session/predictor.json").certificate.threshold == "inf"
    for options, problem in (
        (["--grid", "grid.csv"], "--grid goes with --epsilon"),
        (["--epsilon", "0"], "epsilon is 0"),
        (["--epsilon", "1", "--guarantee", "pac"], "pac is not there with differential privacy"),
    ):
        refused = command("sums", "start", "other", *options)
        assert refused.code == 2
        assert problem in refused.err


def test_sites_that_know_each_other_by_their_keys(scores: list[np.ndarray], command: Command) -> None:
    """Each site pins the keys of all; the roster and the fingerprint are shown, and a wrong key is refused."""
    keys = {name: new_key() for name in NAMES[:4]}
    for k, key in enumerate(keys.values()):
        Path(f"{k}.key").write_bytes(key)
    Path("keys.json").write_text(json.dumps({name: public_key(key) for name, key in keys.items()}))
    Path("others.json").write_text(json.dumps({name: public_key(new_key()) for name in keys}))
    command.ok("sums", "start", "session")

    def first(k: int, trusted: str) -> list[str]:
        files = ["--summary", f"{k}.fcs", "--state", f"{k}.st", "-o", f"{k}.fcm"]
        return ["sums", "answer", "session/invite.fcm", *files, "--key", f"{k}.key", "--signed", trusted]

    for k in range(4):
        command.ok(*first(k, "others.json" if k == 3 else "keys.json"))
    command.ok("sums", "advance", "session", *[f"{k}.fcm" for k in range(4)])

    def second(k: int) -> list[str]:
        return ["sums", "answer", f"session/to-{NAMES[k]}.fcm", "--state", f"{k}.st", "-o", f"{k}.fcm"]

    said = command.ok(*second(0)).out
    shown = json.loads(command.ok(*second(1), "--json").out)
    assert f"session {shown['fingerprint']}: compare it with the other sites" in said
    assert [one["site"] for one in shown["roster"]] == NAMES[:4]
    assert all(f"{one['site']}: 40 scores, key {one['key'][:16]}" in said for one in shown["roster"])
    refused = command(*second(3))
    assert refused.code == 2
    assert "site 'clinic-a' joined with another key than the one that is trusted; nothing was sent" in refused.err
    late = command(*second(2), "--key", "2.key")
    assert late.code == 2
    assert "--key and --signed go with --summary, at the first step" in late.err


def test_intervals_from_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    """Scores of numbers, by files: a predictor of intervals, and how to have finer cells."""
    monkeypatch.chdir(tmp_path)
    sites = [np.abs(300 * np.random.default_rng(k).standard_normal(400)) for k in range(3)]
    summaries = [fc.summarize(part, "exact", site=f"s{k}", score=fc.Residual()) for k, part in enumerate(sites)]
    command.ok("sums", "start", "session", "--reach", "3")
    assert json.loads(command.ok("show", "session/invite.fcm", "--json").out)["holds"]["cells are fine up to"] == 8.0
    said = ""
    while not Path("session/predictor.json").exists():
        for k, summary in enumerate(summaries):
            Path(f"{k}.fcs").write_bytes(summary.to_bytes())
            sent = [f"session/to-s{k}.fcm"] if said else ["session/invite.fcm", "--summary", f"{k}.fcs"]
            command.ok("sums", "answer", *sent, "--state", f"{k}.st", "-o", f"{k}.fcm")
        said = command.ok("sums", "advance", "session", *[f"{k}.fcm" for k in range(3)]).out
    assert "The intervals hold the true value" in said
    found = fc.load("session/predictor.json")
    assert isinstance(found, fc.IntervalPredictor)
    certificate, plain = found.certificate, float(fc.calibrate(summaries).threshold)
    above = (certificate.privacy or {})["precision"]["above"]
    assert above < plain <= certificate.limit
    assert f"above 8 cells are wide: the plain threshold is between {above:g} and {certificate.limit:g}" in said
    assert "start another session with --reach 1e+03, or more" in said
    refused = command("sums", "start", "other", "--reach", "3", "--exact")
    assert "--reach is for public cells" in refused.err


def test_loss_curves_from_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    """A limit on the expected loss, by files: the plain threshold, and a predictor that names it."""
    monkeypatch.chdir(tmp_path)
    grid = np.linspace(0, 1, 21)
    losses = [np.clip(np.random.default_rng(k).random((60, 1)) - grid, 0, 1) for k in range(3)]
    sites = [fc.summarize_losses(one, thresholds=grid, site=f"s{k}") for k, one in enumerate(losses)]
    Path("grid.csv").write_text("\n".join(map(str, grid.tolist())))
    start = ["sums", "start", "session", "--risk", "0.1", "--thresholds", "grid.csv", "--safe", "ask"]
    assert "--risk needs --thresholds" in command(*start[:5]).err
    assert "--thresholds and --safe go with --risk" in command(*start[:3], *start[5:]).err
    command.ok(*start, "--exact")
    shown = json.loads(command.ok("show", "session/invite.fcm", "--json").out)["holds"]
    assert (shown["limit of the expected loss"], shown["thresholds"], shown["safe action"]) == (0.1, 21, "ask")
    said = ""
    while not Path("session/predictor.json").exists():
        for k, summary in enumerate(sites):
            Path(f"{k}.fcs").write_bytes(summary.to_bytes())
            sent = [f"session/to-s{k}.fcm"] if said else ["session/invite.fcm", "--summary", f"{k}.fcs"]
            command.ok("sums", "answer", *sent, "--state", f"{k}.st", "-o", f"{k}.fcm")
        said = command.ok("sums", "advance", "session", *[f"{k}.fcm" for k in range(3)]).out
    rule = fc.load("session/predictor.json")
    assert isinstance(rule, fc.RiskPredictor)
    plain = fc.calibrate(sites, risk=0.1)
    assert rule.certificate.limit == plain.threshold < 1
    assert (rule.about.limit, rule.about.safe) == (0.1, "ask")
    assert "The expected loss is at most 0.1" in said
    assert f"threshold {plain.threshold:g}" in said
