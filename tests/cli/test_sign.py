"""sign, calibrate --signed and verify --signed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from tests.cli.command import Command

SIGNED = ("--signed", "keys.json", "--calibration", "june")


@pytest.fixture
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> list[str]:
    monkeypatch.chdir(tmp_path)
    keys = {}
    for k in "ab":
        summary = fc.Summary.of_scores(
            np.linspace(0, 1, 50), kind="exact", site=k, score=fc.LAC(), alpha=0.1, calibration="june"
        )
        Path(f"{k}.fcs").write_bytes(summary.to_bytes())
        made = command.ok("sign", f"{k}.fcs", "--key", f"{k}.key", "--new-key", "--json").json
        keys[k] = made["public_key"]
        assert made["signature"] == f"{k}.fcs.sig"
        assert Path(f"{k}.key").stat().st_mode & 0o077 == 0
    Path("keys.json").write_text(json.dumps(keys))
    return ["a.fcs", "b.fcs"]


def test_signed_from_end_to_end(sites: list[str], command: Command) -> None:
    done = command.ok("calibrate", *sites, "-o", "p.json", *SIGNED)
    assert "Every summary is signed by its site for the calibration june" in done.out
    assert "confirmed" in command.ok("verify", "p.json", *sites, "--signed", "keys.json").out
    command.ok("calibrate", *sites, "-o", "plain.json")
    unsigned = command("verify", "plain.json", *sites, "--signed", "keys.json")
    assert unsigned.code == 1
    assert "the summary of 'a' is not signed" in unsigned.out
    without = command("verify", "p.json", *sites)
    assert without.code == 1
    assert "signatures: not confirmed without the sites' public keys" in without.out


def test_a_key_that_is_taken_out_is_revoked(sites: list[str], command: Command) -> None:
    command.ok("calibrate", *sites, "-o", "p.json", *SIGNED)
    keys = json.loads(Path("keys.json").read_text())
    del keys["b"]
    Path("keys.json").write_text(json.dumps(keys))
    revoked = command("verify", "p.json", *sites, "--signed", "keys.json")
    assert revoked.code == 1
    assert "no key is trusted for site 'b'" in revoked.out
    again = command("calibrate", *sites, "-o", "q.json", *SIGNED)
    assert again.code == 2
    assert "no key is trusted for site 'b'" in again.err


def test_from_rows_to_a_signed_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("p.npy", np.random.default_rng(0).dirichlet([1, 1, 1], size=60))
    np.save("y.npy", np.zeros(60, dtype=int))
    made = ["summarize", "p.npy", "y.npy", "-o", "a.fcs", "--calibration", "june"]
    command.ok(*made, "--expires", "2999-12-31", "--alpha", "0.2")
    key = command.ok("sign", "a.fcs", "--key", "a.key", "--new-key", "--json").json["public_key"]
    Path("keys.json").write_text(json.dumps({"a": key}))
    other = command("calibrate", "a.fcs", "-o", "p.json", *SIGNED)  # at alpha 0.1
    assert other.code == 2
    assert "site 'a' was summarised for a calibration at alpha 0.2, not at 0.1" in other.err
    found = command.ok("calibrate", "a.fcs", "-o", "p.json", *SIGNED, "--alpha", "0.2", "--json").json["certificate"]
    assert (found["provenance"]["calibration"], found["provenance"]["expires"]) == ("june", "2999-12-31")
    command.ok(*made, "--expires", "2020-01-01")
    stale = command("calibrate", "a.fcs", "-o", "p.json")
    assert stale.code == 2
    assert "expired on 2020-01-01" in stale.err
    command.ok(*made[:5])
    plain = command("sign", "a.fcs", "--key", "a.key")
    assert plain.code == 2
    assert "a.fcs: does not say which calibration it is for" in plain.err


def test_refusals(sites: list[str], command: Command) -> None:
    def fails(problem: str, *arguments: str) -> None:
        done = command(*arguments)
        assert done.code == 2
        assert problem in done.err

    july, bare = ("--signed", "keys.json", "--calibration", "july"), ("--signed", "keys.json")
    fails("a.fcs: was made for the calibration june, not for july", "calibrate", *sites, "-o", "p.json", *july)
    fails("--signed needs --calibration ID", "calibrate", *sites, "-o", "p.json", *bare)
    fails("a.key: exists", "sign", "a.fcs", "--key", "a.key", "--new-key")
    fails("none.key: cannot be read", "sign", "a.fcs", "--key", "none.key")
    fails("a.fcs: a private key has 32 bytes", "sign", "a.fcs", "--key", "a.fcs")
    private = ["--epsilon", "10", "--alpha", "0.5"]
    fails("--signed does not go with privacy", "calibrate", *sites, "-o", "p.json", *SIGNED, *private)
    Path("b.fcs.sig").write_bytes(Path("a.fcs.sig").read_bytes())
    fails("the summary of 'b' is not signed", "calibrate", *sites, "-o", "p.json", *SIGNED)
    Path("b.fcs.sig").write_text("{}")
    fails("b.fcs.sig: not a signature", "calibrate", *sites, "-o", "p.json", *SIGNED)
    Path("b.fcs.sig").unlink()
    fails(
        "b.fcs.sig: is not there; the site makes it with fedconformal sign",
        "calibrate",
        *sites,
        "-o",
        "p.json",
        *SIGNED,
    )
    fails("keys.txt: cannot be read", "calibrate", sites[0], "-o", "p.json", *SIGNED[2:], "--signed", "keys.txt")
    assert not Path("p.json").exists()
