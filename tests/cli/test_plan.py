"""fedconformal plan, and the guarantees that calibrate knows, from the command line."""

from pathlib import Path

import pytest

import fedconformal as fc
from tests.cli.command import Command
from tests.cli.test_bad_input import refused

SUMMARIES = [f"site-{k}.fcs" for k in range(3)]


def test_the_table_fits_a_terminal(folder: Path, command: Command) -> None:
    shown = command.ok("plan", "--sizes", "200,50,20", "--guarantee", "pac:0.01").out
    rows = shown.split("\n\n")[0].splitlines()
    assert " ".join(rows[0].split()) == "guarantee feasible coverage smallest alpha"
    assert (len(rows), rows[-1].split()[0]) == (9, "pac:0.01")
    assert max(map(len, rows)) <= 80
    assert "new-site: sites needed: 6 more, from the same population" in shown
    assert "takes 10 rows of each class or group" in shown
    found = command.ok("plan", "--sizes", "60,60,60", "--json").json
    assert found["options"][0]["rank"] == 163


@pytest.mark.parametrize(
    ("options", "guarantee"),
    [
        (["worst-case:contamination=0.1"], fc.WorstCase(contamination=0.1)),
        (["new-site", "--alpha", "0.3"], fc.NewSite()),
        (["pac:failure=0.1"], fc.PAC(failure=0.1)),
    ],
)
def test_calibrate_with_it(calibrated: Path, command: Command, options: list[str], guarantee: fc.Guarantee) -> None:
    made = command.ok("calibrate", *SUMMARIES, "-o", "other.json", "--json", "--guarantee", *options).json
    assert made["certificate"]["guarantee"] == guarantee.to_dict()
    summaries = [fc.Summary.from_bytes(Path(file).read_bytes()) for file in SUMMARIES]
    alpha = made["certificate"]["alpha"]
    assert (
        made["certificate"]["promises"][0]["threshold"]
        == fc.calibrate(summaries, alpha=alpha, guarantee=guarantee).threshold
    )
    command.ok("verify", "other.json", *reversed(SUMMARIES))


REFUSED = {
    "mixture:contamination=0.1": "contamination is out of place; mixture has the parameters weights, most_scores",
    "mixture:weights=site-0=0.5,site-1=0.5": "give each of site-0, site-1, site-2 one weight",
    "mixture:weights=site-0=0.5,site-1=0.5,site-9=0": "give each of site-0, site-1, site-2 one weight",
    "mixture:weights=site-0=0.5,site-0=0.5,site-1=0,site-2=0": "give each of site-0, site-1, site-2 one weight",
    "mixture:weights=site-0=0.5,0.5,0": "weights is 'site-0=0.5,0.5,0', expected numbers",
}


def test_guarantees_that_fit_nothing(calibrated: Path, command: Command) -> None:
    for guarantee, said in REFUSED.items():
        refused(command, "calibrate", *SUMMARIES, "-o", "out.json", "--guarantee", guarantee, said=said)
    refused(command, "plan", "--sizes", "60,60", "--guarantee", "pac:2", said="failure is 2")
    refused(command, "plan", said="give --sizes")
    refused(command, "plan", "site-0.fcs", "--sizes", "3", said="one of them")


def test_sites_by_name(calibrated: Path, command: Command) -> None:
    shares = "mixture:weights=site-2=0.5,site-0=0.3,site-1=0.2"
    named = command.ok("calibrate", *SUMMARIES, "-o", "named.json", "--guarantee", shares, "--json").json
    listed = command.ok(
        "calibrate", *SUMMARIES, "-o", "listed.json", "--guarantee", "mixture:0.3,0.2,0.5", "--json"
    ).json
    assert named["certificate"] == listed["certificate"]
    assert named["certificate"]["guarantee"]["weights"] == [0.3, 0.2, 0.5]
    assert command.ok("plan", *SUMMARIES, "--json").json["sizes"] == [60, 60, 60]
