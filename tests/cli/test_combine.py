"""fedconformal monitor combine: exit codes, one JSON object, a page, and the file that is bad by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from fedconformal.monitoring.messages import write_periods
from tests.cli.command import Command
from tests.monitoring.streams import messages


@pytest.fixture(autouse=True)
def at_home(here: Path) -> None:
    for i in range(3):
        Path(f"clinic-{i}.fcw").write_bytes(write_periods(messages(f"clinic-{i}", [0.05] * 20)))
    Path("drift.fcw").write_bytes(write_periods(messages("clinic-3", [0.1] * 10 + [0.4] * 10)))


GOOD = ["clinic-0.fcw", "clinic-1.fcw", "clinic-2.fcw"]


def test_it_holds(command: Command) -> None:
    done = command("monitor", "combine", *GOOD, "-o", "page.html")
    assert done.code == 0
    assert done.out.startswith("holds: at most ")
    assert "wrote page.html: " in done.out
    assert Path("page.html").read_text("utf-8").startswith("<!doctype html>")


def test_an_alarm_is_exit_code_one(command: Command) -> None:
    done = command("monitor", "combine", *GOOD, "drift.fcw", "--json", "-o", "page.html")
    assert done.code == 1
    facts = json.loads(done.out)
    assert facts["state"] == "alarm"
    assert facts["all_rows"]["named_sites"] == ["clinic-3"]
    assert "at clinic-3" in facts["sentence"]
    assert "Do not rely on the sets at clinic-3" in Path("page.html").read_text("utf-8")
    command.no("- Do not rely on the sets at clinic-3", "monitor", "combine", *GOOD, "drift.fcw")


def test_what_is_bad_is_named(command: Command) -> None:
    other = [replace(period, predictor=bytes(32)) for period in messages("clinic-9", [0.1])]
    odd = write_periods([replace(period, site="clinic?[31m") for period in messages("a", [0.5] * 9)])
    bad = {
        "cut.fcw": (Path("clinic-0.fcw").read_bytes()[:-3], "this is not a file of periods: it ends within a message"),
        "other.fcw": (write_periods(other), "clinic-9: watches the predictor 000000000000, and others"),
        "odd.fcw": (odd.replace(b"clinic?", b"clinic\x1b"), ""),
    }
    for name, (content, words) in bad.items():
        Path(name).write_bytes(content)
        done = command.refuses(f"{name}: {words}", "monitor", "combine", *GOOD, name, "-o", "page.html")
        assert "\x1b" not in done.err
    command.refuses("missing.fcw: cannot be read", "monitor", "combine", "missing.fcw")


def test_signatures_say_whose_a_message_is(command: Command) -> None:
    pytest.importorskip("cryptography", reason="signatures need cryptography")
    keys = {}
    for i, name in enumerate(GOOD):
        signed = command.ok("sign", name, "--key", f"{i}.key", "--new-key", "--json").json
        keys[signed["site"]] = signed["public_key"]
    Path("keys.json").write_text(json.dumps(keys))
    combined = ["monitor", "combine", *GOOD, "--signed", "keys.json"]
    command.ok(*combined)
    both = Path("clinic-1.fcw").read_bytes() + Path("clinic-2.fcw").read_bytes()
    wrong: list[tuple[str, bytes | None, str]] = [
        ("clinic-1.fcw.sig", Path("clinic-0.fcw.sig").read_bytes(), "clinic-1.fcw: site 'clinic-1' signed with"),
        ("clinic-1.fcw", write_periods(messages("clinic-1", [0.05] * 19)), "is not one of site 'clinic-1' for this"),
        ("clinic-1.fcw", both, "clinic-1.fcw: holds messages of clinic-1, clinic-2; only those of one site"),
        ("clinic-1.fcw.sig", None, "clinic-1.fcw.sig: does not exist; the site creates it with fedconformal sign"),
    ]
    for name, data, expected in wrong:
        held = Path(name).read_bytes()
        Path(name).unlink() if data is None else Path(name).write_bytes(data)
        command.refuses(expected, *combined)
        Path(name).write_bytes(held)
    Path("both.fcw").write_bytes(both)
    command.refuses("only those of one site can be signed", "sign", "both.fcw", "--key", "0.key")
