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
def sites(here: Path, command: Command) -> list[str]:
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
    verify = ("verify", "p.json", *sites)
    assert "confirmed" in command.ok(*verify, "--signed", "keys.json").out
    command.no("signatures: not confirmed without the sites' public keys (--signed)", *verify)
    keys = json.loads(Path("keys.json").read_text())
    Path("keys.json").write_text(json.dumps({"a": keys["a"]}))
    command.no("no key is trusted for site 'b'", *verify, "--signed", "keys.json")  # it was taken out
    command.refuses("no key is trusted for site 'b'", "calibrate", *sites, "-o", "q.json", *SIGNED)
    command.ok("calibrate", *sites, "-o", "plain.json")
    command.no("the summary of 'a' is not signed", "verify", "plain.json", *sites, "--signed", "keys.json")


def test_from_rows_to_a_signed_certificate(folder: Path, command: Command) -> None:
    made = ["summarize", "probs-0.npy", "labels-0.npy", "-o", "a.fcs", "--calibration", "june"]
    command.ok(*made, "--expires", "2999-12-31", "--alpha", "0.2")
    key = command.ok("sign", "a.fcs", "--key", "a.key", "--new-key", "--json").json["public_key"]
    Path("keys.json").write_text(json.dumps({"a": key}))
    calibrate = ("calibrate", "a.fcs", "-o", "p.json")
    command.refuses("site 'a' was summarised for a calibration at alpha 0.2, not at 0.1", *calibrate, *SIGNED)
    found = command.ok(*calibrate, *SIGNED, "--alpha", "0.2", "--json").json["certificate"]
    assert (found["provenance"]["calibration"], found["provenance"]["expires"]) == ("june", "2999-12-31")
    command.ok(*made, "--expires", "2020-01-01")
    command.refuses("expired on 2020-01-01", *calibrate)


def test_refusals(sites: list[str], command: Command) -> None:
    calibrate = ("calibrate", *sites, "-o", "p.json", "--signed", "keys.json")
    june = (*calibrate, "--calibration", "june")
    command.refuses("a.fcs: was made for the calibration june, not for july", *calibrate, "--calibration", "july")
    command.refuses("--signed needs --calibration ID", *calibrate)
    command.refuses("a.key: exists", "sign", "a.fcs", "--key", "a.key", "--new-key")
    command.refuses("none.key: does not exist; --new-key creates it", "sign", "a.fcs", "--key", "none.key")
    Path("b.fcs.sig").write_bytes(Path("a.fcs.sig").read_bytes())
    command.refuses("the summary of 'b' is not signed", *june)
    Path("b.fcs.sig").write_text("{}")
    command.refuses("b.fcs.sig: not a signature", *june)
