"""`verify` fails if one digit or one byte was changed."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

import fedconformal as fc
from fedconformal.calibration.calibrate import calibrate_again
from fedconformal.certificates.certificate import LeftOut
from tests.cli.command import Command
from tests.contracts.tools import changed

SUMMARIES = [f"site-{k}.fcs" for k in range(3)]


def test_changed_digits_are_noticed(calibrated: Path, command: Command) -> None:
    text = Path("predictor.json").read_text()
    places = [found.start() for found in re.finditer(r"\d", text)]
    assert len(places) > 250  # most are of hashes and sizes: few thresholds are published, and their digits are few
    for place in places[::37] + places[-20:]:
        digit = str((int(text[place]) + 1) % 10)
        Path("changed.json").write_text(text[:place] + digit + text[place + 1 :])
        assert command("verify", "changed.json", *SUMMARIES).code in (1, 2), text[place - 40 : place + 5]
    threshold = re.search(r'"threshold": 0\.(\d)', text)
    assert threshold
    digit = str((int(threshold[1]) + 1) % 10)
    Path("changed.json").write_text(text[: threshold.start(1)] + digit + text[threshold.end(1) :])
    found = command.no("altered", "verify", "changed.json", *SUMMARIES, "--json").json  # and not bad input
    assert found["confirmed"] is False
    Path("changed.json").write_text(text.replace("\n", " \n", 1))
    command.no("the file was reformatted", "verify", "changed.json", *SUMMARIES)
    command.ok("predict", "changed.json", "test-probs.npy", "-o", "sets.npz")


def test_who_was_left_out_needs_the_signature_of_the_coordinator(calibrated: Path, command: Command) -> None:
    predictor = fc.load("predictor.json")
    invented = [LeftOut(site="nobody", reason="none")]
    elsewhere = changed(predictor.certificate, left_out=invented)
    replace(predictor, certificate=elsewhere).save("left.json")
    command.no("left_out: not confirmed", "verify", "left.json", *SUMMARIES)
    key = command.ok("sign", "left.json", "--key", "c.key", "--new-key", "--json").json["public_key"]
    assert "confirmed" in command.ok("verify", "left.json", *SUMMARIES, "--coordinator", key).out
    other = command.ok("sign", "predictor.json", "--key", "d.key", "--new-key", "--json").json["public_key"]
    verify = ("verify", "left.json", *SUMMARIES, "--coordinator")
    command.no("left.json.sig is not the signature of this coordinator", *verify, other)
    for no_key in ("c.key", "zz", ""):
        command.refuses("--coordinator: expected a public key of 64 hexadecimal digits", *verify, no_key)
    Path("left.json").write_bytes(Path("left.json").read_bytes() + b"\n")  # one byte more than was signed
    assert command("verify", "left.json", *SUMMARIES, "--coordinator", key).code == 1
    Path("left.json.sig").unlink()
    assert command("verify", "left.json", *SUMMARIES, "--coordinator", key).code == 2


def test_a_heavy_site_and_an_expired_certificate_are_said(here: Path, command: Command) -> None:
    sizes = {"a": 30, "b": 20, "c": 900}
    sites = [fc.Summary.of_scores(np.zeros(n), site=site, score=fc.LAC()) for site, n in sizes.items()]
    old = fc.Summary.of_scores(np.zeros(30), site="a", score=fc.LAC(), expires="2020-01-01")
    for name, summary in zip(["0.fcs", "1.fcs", "2.fcs", "old.fcs"], [*sites, old], strict=True):
        Path(name).write_bytes(summary.to_bytes())
    fc.calibrate(sites).save("heavy.json")
    assert "site 'c' has 95% of all" in command.ok("verify", "heavy.json", "0.fcs", "1.fcs", "2.fcs").err
    calibrate_again([old], fc.calibrate(sites[:1]).certificate).save("old.json")
    assert "expired on 2020-01-01" in command.ok("verify", "old.json", "old.fcs").err
