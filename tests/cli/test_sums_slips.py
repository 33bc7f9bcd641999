"""What a sums session by files says when somebody slips, or asks where it stands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.privacy import public_key
from tests.cli.command import Command

GONE = "cannot be read (No such file or directory); check its name and its folder"
NAMES = ["clinic a", "klinik-ü", "clinic-c", "clinic-d"]


@pytest.fixture
def at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> Command:
    """Four sites with their exact summaries, and a session that has started."""
    monkeypatch.chdir(tmp_path)
    for k, name in enumerate(NAMES):
        scores = np.random.default_rng(k).random(40)
        Path(f"{k}.fcs").write_bytes(fc.summarize(scores, "exact", site=name, score=fc.LAC()).to_bytes())
    command.ok("sums", "start", "session")
    return command


def join(command: Command, k: int, *options: str) -> None:
    first = ("session/invite.fcm", "--summary", f"{k}.fcs", "--state", f"{k}.st", "-o", f"{k}.fcm")
    command.ok("sums", "answer", *first, *options)


def whole(command: Command, *options: str) -> list[str]:
    """Go on to the end; return what the coordinator's steps say."""
    said = [command.ok("sums", "advance", "session", *(f"{k}.fcm" for k in range(4)), *options).out]
    while Path("session/coordinator.state").exists():
        for k, name in enumerate(NAMES):
            to = f"session/to-{name.replace(' ', '_')}.fcm"
            command.ok("sums", "answer", to, "--state", f"{k}.st", "-o", f"{k}.fcm")
        said.append(command.ok("sums", "advance", "session", *(f"{k}.fcm" for k in range(4)), *options).out)
    return said


def fails(command: Command, *arguments: str) -> str:
    done = command("sums", *arguments)
    assert done.code == 2
    assert done.err.count("\n") == 1
    return done.err.removeprefix("error: ").rstrip("\n")


def test_every_step_says_which_one_it_is(at_work: Command) -> None:
    for k in range(4):
        join(at_work, k)
    said = whole(at_work)
    assert "exchange 1 of at most 14 is done" in said[0]
    assert "exchange 2 of at most 14 is done" in said[1]
    assert f"in {len(said)} exchanges" in said[-1].replace("\n", " ")
    assert len(said) <= 14


def test_programs_read_it_too(at_work: Command) -> None:
    for k in range(4):
        join(at_work, k)
    done = at_work.ok("sums", "advance", "session", *(f"{k}.fcm" for k in range(4)), "--json").json
    assert (done["exchanges"], done["most_exchanges"]) == (1, 14)
    assert done["send"]["clinic a"] == "session/to-clinic_a.fcm"


def test_a_key_for_sums(at_work: Command) -> None:
    made = at_work.ok("sums", "key", "a.key", "--json").json
    assert made == {"key": "a.key", "public_key": public_key(Path("a.key").read_bytes())}
    assert Path("a.key").stat().st_mode & 0o077 == 0
    again = at_work.ok("sums", "key", "a.key").out  # one that exists is shown, not replaced
    assert made["public_key"] in again
    join(at_work, 0, "--key", "a.key")
    assert "a private key has 32 bytes" in fails(at_work, "key", "0.fcs")


def test_the_file_that_is_wrong_is_named(at_work: Command) -> None:
    first = ("answer", "session/invite.fcm", "--summary", "0.fcs", "--state", "0.st", "-o", "0.fcm")
    assert fails(at_work, *first, "--key", "no.key") == f"no.key: {GONE}"
    assert fails(at_work, *first, "--key", "1.fcs").startswith("1.fcs: a private key has 32 bytes")
    assert fails(at_work, *first, "--signed", "no.json") == f"no.json: {GONE}"
    assert fails(at_work, *first, "--ledger", "no.json") == (
        "no.json: cannot be read (there is no such file); a new ledger is a file with a budget for epsilon, such as "
        '{"budget": 3}'
    )
    Path("old.fcm").write_bytes(b"\x91\xc4\x50FCM1I" + bytes(75))
    first = ("answer", "old.fcm", "--summary", "0.fcs", "--state", "0.st", "-o", "0.fcm")
    assert "of an older release" in fails(at_work, *first)
    assert fails(at_work, "answer", "1.fcs", *first[2:]) == "1.fcs: this is not a file of a sums session"


def test_a_second_session(at_work: Command) -> None:
    for k in range(4):
        join(at_work, k)
    first = ("answer", "session/invite.fcm", "--summary", "0.fcs", "--state", "0.st", "-o", "0.fcm")
    assert "sums close 0.st" in fails(at_work, *first)
    twice = fails(at_work, "advance", "session", "0.fcm", "0.fcm", "1.fcm")
    assert twice == "a site or a key is on the roster twice: clinic a"


def test_a_folder_without_a_session(at_work: Command) -> None:
    assert fails(at_work, "advance", "elsewhere", "0.fcm") == (
        "elsewhere: holds no session that is under way; fedconformal sums start opens one"
    )
    for k in range(4):
        join(at_work, k)
    whole(at_work)
    done = Path("session/predictor.json").read_bytes()
    assert fails(at_work, "start", "session") == (
        "session: holds the predictor of a session that is over; choose another folder"
    )
    assert "holds no session that is under way" in fails(at_work, "close", "session")
    assert Path("session/predictor.json").read_bytes() == done


def test_a_site_that_nobody_can_do_without(at_work: Command) -> None:
    for k in range(4):
        join(at_work, k)
    at_work.ok("sums", "advance", "session", *(f"{k}.fcm" for k in range(4)))
    told = fails(at_work, "advance", "session", *(f"{k}.fcm" for k in range(3)))  # the joins again
    assert "expected the message Deposit" in told
    assert told.endswith("; is it of another step?")
    for k, name in enumerate(NAMES[:3]):
        to = f"session/to-{name.replace(' ', '_')}.fcm"
        at_work.ok("sums", "answer", to, "--state", f"{k}.st", "-o", f"{k}.fcm")
    told = fails(at_work, "advance", "session", *(f"{k}.fcm" for k in range(3)))
    assert told.endswith("wait for those that are missing, or wipe the session with fedconformal sums close")


def test_states_of_another_release(at_work: Command) -> None:
    """They cannot be gone on with, but they hold secrets, so they can be wiped."""
    join(at_work, 0)
    Path("0.st").write_bytes(Path("0.st").read_bytes().replace(b"sums-site-3", b"sums-site-2", 1))
    told = fails(at_work, "answer", "session/invite.fcm", "--state", "0.st", "-o", "0.fcm")
    assert told.endswith("of this release: finish the session with the one that wrote it")
    assert "a state of a sums session of another release" in at_work.ok("show", "0.st").out
    at_work.ok("sums", "close", "0.st")
    assert not Path("0.st").exists()
    assert "this is not a state of a sums session" in fails(at_work, "close", "1.fcs")
    assert Path("1.fcs").exists()


def test_what_a_message_shows(at_work: Command) -> None:
    invited = at_work.ok("show", "session/invite.fcm", "--json").json
    assert invited["what"] == "the invitation to a sums session"
    assert invited["holds"] == {"alpha": 0.1, "guarantee": "mixture", "rounds at most": 4, "least rows in a cell": 50}
    at_work.ok("sums", "start", "noisy", "--epsilon", "1", "--guarantee", "exchangeable")
    noisy = at_work.ok("show", "noisy/invite.fcm", "--json").json["holds"]
    assert (noisy["epsilon"], noisy["guarantee"]) == (1.0, "exchangeable")
    for k in range(4):
        join(at_work, k)
    assert "its name, its number of scores" in at_work.ok("show", "0.fcm").out
    at_work.ok("sums", "advance", "session", *(f"{k}.fcm" for k in range(4)))
    assert "all sites that joined" in at_work.ok("show", "session/to-clinic-c.fcm").out
    Path("old.fcm").write_bytes(b"\x91\xc4\x50FCM1I" + bytes(75))
    assert "a sums session of an older release" in at_work.ok("show", "old.fcm").out


def test_verify_needs_no_summaries_of_a_session(at_work: Command) -> None:
    for k in range(4):
        join(at_work, k)
    whole(at_work)
    held = at_work.ok("show", "session/predictor.json", "--json").json["holds"]
    assert "only sums" in held["privacy"]
    assert "rounded up to the edge of a cell" in held["precision"]
    done = at_work("verify", "session/predictor.json")
    assert done.code == 1
    assert "a private release cannot be recomputed" in done.out
    at_work.ok("calibrate", *(f"{k}.fcs" for k in range(4)), "-o", "plain.json")
    plain = at_work("verify", "plain.json")
    assert (plain.code, plain.err) == (2, "error: plain.json: give the summaries that it was made from as well\n")


def test_a_policy_is_for_every_step(at_work: Command) -> None:
    Path("policy.toml").write_text("least_sites = 4\n")
    for k in range(4):
        join(at_work, k, *(["--policy", "policy.toml"] if k == 0 else []))
    at_work.ok("sums", "advance", "session", *(f"{k}.fcm" for k in range(4)))
    step = (f"session/to-{NAMES[0].replace(' ', '_')}.fcm", "--state", "0.st", "-o", "0.fcm")
    Path("policy.toml").write_text("least_sites = 5\n")
    assert "policy.toml, line 1: least_sites = 5" in fails(at_work, "answer", *step)
    Path("policy.toml").rename("elsewhere.toml")
    assert "policy.toml" in fails(at_work, "answer", *step)  # a policy that is gone opens nothing
    Path("elsewhere.toml").rename("policy.toml")
    Path("policy.toml").write_text("least_sites = 4\n")
    at_work.ok("sums", "answer", *step)


def test_names_that_give_one_file_are_named(at_work: Command) -> None:
    for k, name in enumerate(["a b", "a/b", "c"]):
        Path(f"{k}.fcs").write_bytes(fc.summarize(np.arange(40) / 40, "exact", site=name).to_bytes())
        join(at_work, k)
    told = fails(at_work, "advance", "session", *(f"{k}.fcm" for k in range(3)))
    assert told == "'a b' and 'a/b' give the same file name; let one of them take another name"


def test_there_is_no_total_once_a_site_is_lost(at_work: Command) -> None:
    Path("4.fcs").write_bytes(fc.summarize(np.arange(40) / 40, "exact", site="e", score=fc.LAC()).to_bytes())
    for k in range(5):
        join(at_work, k)
    at_work.ok("sums", "advance", "session", *(f"{k}.fcm" for k in range(5)))
    for k, name in enumerate(NAMES):
        to = f"session/to-{name.replace(' ', '_')}.fcm"
        at_work.ok("sums", "answer", to, "--state", f"{k}.st", "-o", f"{k}.fcm")
    said = at_work.ok("sums", "advance", "session", *(f"{k}.fcm" for k in range(4))).out
    assert "exchange 2 is done" in said


def test_noise_takes_five_exchanges(at_work: Command) -> None:
    at_work.ok("sums", "start", "noisy", "--epsilon", "8")
    for k in range(4):
        first = ("noisy/invite.fcm", "--summary", f"{k}.fcs", "--state", f"{k}.st", "-o", f"{k}.fcm")
        at_work.ok("sums", "answer", *first)
    said = at_work.ok("sums", "advance", "noisy", *(f"{k}.fcm" for k in range(4))).out
    assert "exchange 1 of at most 5 is done" in said
