"""fedconformal plan, and guarantees by their spec strings."""

from pathlib import Path

import fedconformal as fc
from tests.cli.command import Command

SUMMARIES = [f"site-{k}.fcs" for k in range(3)]
CALIBRATE = ("calibrate", *SUMMARIES, "-o", "out.json", "--json", "--guarantee")


def test_the_table_fits_a_terminal(command: Command) -> None:
    shown = command.ok("plan", "--sizes", "200,50,20", "--guarantee", "every-site", "--guarantee", "pac:0.01").out
    rows = shown.split("\n\n")[0].splitlines()
    assert " ".join(rows[0].split()) == "guarantee feasible coverage smallest alpha"
    assert (len(rows), rows[-1].split()[0]) == (9, "pac:0.01")
    assert max(map(len, rows)) <= 80
    assert "new-site: sites needed: 6 more, from the same population" in shown
    assert "takes 10 rows of each class or group" in shown


def test_calibrate_with_parameters(calibrated: Path, command: Command) -> None:
    found = command.ok(*CALIBRATE, "new-site", "--alpha", "0.3").json["certificate"]
    assert (found["alpha"], found["guarantee"]) == (0.3, fc.NewSite().to_dict())
    found = command.ok(*CALIBRATE, "worst-case:contamination=0.1").json["certificate"]
    guarantee = fc.WorstCase(contamination=0.1)
    assert found["guarantee"] == guarantee.to_dict()
    summaries = [fc.Summary.from_bytes(Path(file).read_bytes()) for file in SUMMARIES]
    assert found["promises"][0]["threshold"] == fc.calibrate(summaries, guarantee=guarantee).threshold
    command.ok("verify", "out.json", *reversed(SUMMARIES))


ONE_EACH = "give each of site-0, site-1, site-2 one weight"
REFUSED = {
    "mixture:weights=site-0=0.5,site-1=0.5": ONE_EACH,
    "mixture:weights=site-0=0.5,site-1=0.5,site-9=0": ONE_EACH,
    "mixture:weights=site-0=0.5,site-0=0.5,site-1=0,site-2=0": ONE_EACH,
    "mixture:weights=site-0=0.5,0.5,0": "weights is 'site-0=0.5,0.5,0', expected numbers",
}


def test_refusals(calibrated: Path, command: Command) -> None:
    for guarantee, said in REFUSED.items():
        command.refuses(said, *CALIBRATE, guarantee)


def test_weights_by_the_names_of_sites(calibrated: Path, command: Command) -> None:
    named = command.ok(*CALIBRATE, "mixture:weights=site-2=0.5,site-0=0.3,site-1=0.2").json["certificate"]
    assert named == command.ok(*CALIBRATE, "mixture:0.3,0.2,0.5").json["certificate"]
    assert named["guarantee"]["weights"] == [0.3, 0.2, 0.5]
