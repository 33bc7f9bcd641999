"""sign, calibrate --signed and verify --signed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from tests.cli.command import Command


@pytest.fixture
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> list[str]:
    monkeypatch.chdir(tmp_path)
    keys = {}
    for k in "ab":
        summary = fc.summarize(np.linspace(0, 1, 50), "exact", site=k, score=fc.LAC())
        Path(f"{k}.fcs").write_bytes(summary.to_bytes())
        made = command.ok("sign", f"{k}.fcs", "--key", f"{k}.key", "--new-key", "--json").json
        keys[k] = made["public_key"]
        assert made["signature"] == f"{k}.fcs.sig"
        assert Path(f"{k}.key").stat().st_mode & 0o077 == 0
    Path("keys.json").write_text(json.dumps(keys))
    return ["a.fcs", "b.fcs"]


def test_signed_from_end_to_end(sites: list[str], command: Command) -> None:
    done = command.ok("calibrate", *sites, "-o", "p.json", "--signed", "keys.json")
    assert "Every summary is signed by its site" in done.out
    assert "confirmed" in command.ok("verify", "p.json", *sites, "--signed", "keys.json").out
    command.ok("calibrate", *sites, "-o", "plain.json")
    unsigned = command("verify", "plain.json", *sites, "--signed", "keys.json")
    assert unsigned.code == 1
    assert "the summary of 'a' is not signed" in unsigned.out
    command.ok("verify", "p.json", *sites)


def test_refusals(sites: list[str], command: Command) -> None:
    def fails(problem: str, *arguments: str) -> None:
        done = command(*arguments)
        assert done.code == 2
        assert problem in done.err

    fails("a.key: exists", "sign", "a.fcs", "--key", "a.key", "--new-key")
    fails("none.key: cannot be read", "sign", "a.fcs", "--key", "none.key")
    fails("a.fcs: a private key has 32 bytes", "sign", "a.fcs", "--key", "a.fcs")
    private = ["--privacy", "dp", "--epsilon", "10", "--alpha", "0.5"]
    fails("--signed does not go with --privacy", "calibrate", *sites, "-o", "p.json", "--signed", "keys.json", *private)
    Path("b.fcs.sig").write_bytes(Path("a.fcs.sig").read_bytes())
    fails("the summary of 'b' is not signed", "calibrate", *sites, "-o", "p.json", "--signed", "keys.json")
    Path("b.fcs.sig").write_text("{}")
    fails("b.fcs.sig: not a signature", "calibrate", *sites, "-o", "p.json", "--signed", "keys.json")
    Path("b.fcs.sig").unlink()
    fails(
        "b.fcs.sig: is not there; the site makes it with fedconformal sign",
        "calibrate",
        *sites,
        "-o",
        "p.json",
        "--signed",
        "keys.json",
    )
    fails("keys.txt: cannot be read", "calibrate", sites[0], "-o", "p.json", "--signed", "keys.txt")
    assert not Path("p.json").exists()
