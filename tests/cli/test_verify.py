"""`verify` fails if one digit or one byte was changed."""

import re
from dataclasses import replace
from pathlib import Path

import msgspec

import fedconformal as fc
from tests.cli.command import Command

SUMMARIES = [f"site-{k}.fcs" for k in range(3)]


def test_every_changed_digit_is_noticed(calibrated: Path, command: Command) -> None:
    text = Path("predictor.json").read_text()
    places = [found.start() for found in re.finditer(r"\d", text)]
    assert len(places) > 500
    for place in places[::37] + places[-60:]:
        digit = str((int(text[place]) + 1) % 10)
        Path("changed.json").write_text(text[:place] + digit + text[place + 1 :])
        assert command("verify", "changed.json", *SUMMARIES).code in (1, 2), text[place - 40 : place + 5]


def test_a_changed_digit_is_no_and_not_bad_input(calibrated: Path, command: Command) -> None:
    text = Path("predictor.json").read_text()
    threshold = re.search(r'"threshold": 0\.(\d)', text)
    assert threshold
    place = threshold.start(1)
    Path("changed.json").write_text(text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :])
    done = command("verify", "changed.json", *SUMMARIES, "--json")
    assert done.code == 1
    assert done.json["confirmed"] is False
    assert "altered" in done.json["problems"][0]


def test_a_changed_byte_of_a_summary_is_noticed(calibrated: Path, command: Command) -> None:
    data = Path("site-1.fcs").read_bytes()
    for place in range(0, len(data), 11):
        Path("site-1.fcs").write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert command("verify", "predictor.json", *SUMMARIES).code == 2


def test_a_reformatted_file_is_noticed(calibrated: Path, command: Command) -> None:
    Path("changed.json").write_text(Path("predictor.json").read_text().replace("\n", " \n", 1))
    assert command("verify", "changed.json", *SUMMARIES).code == 1
    command.ok("predict", "changed.json", "test-probs.npy", "-o", "sets.npz")


def test_other_or_missing_summaries_are_named(calibrated: Path, command: Command) -> None:
    command.ok("summarize", "probs-0.npy", "labels-0.npy", "--kind", "exact", "--site", "site-1", "-o", "other.fcs")
    done = command("verify", "predictor.json", "site-0.fcs", "other.fcs")
    assert done.code == 1
    assert "site 'site-1' is not the one that was certified" in done.out
    assert "the certified summary of site 'site-2' was not given" in done.out


def test_the_wording_of_another_release_is_said_not_to_be_compared(calibrated: Path, command: Command) -> None:
    predictor = fc.load("predictor.json")
    elsewhere = msgspec.structs.replace(predictor.certificate, versions={"fedconformal": "0.0.1"}, promise="for all")
    replace(predictor, certificate=elsewhere).save("changed.json")
    done = command.ok("verify", "changed.json", *SUMMARIES)
    assert "It is of fedconformal 0.0.1: its wording was not compared" in done.out
    assert command.ok("verify", "changed.json", *SUMMARIES, "--json").json["wording_compared"] is False
    assert "wording" not in command.ok("verify", "predictor.json", *SUMMARIES).out
    assert command.ok("verify", "predictor.json", *SUMMARIES, "--json").json["wording_compared"] is True
