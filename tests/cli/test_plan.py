"""fedconformal plan, and the guarantees that calibrate knows, from the command line."""

from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from tests.cli.command import Command
from tests.cli.test_bad_input import check
from tests.cli.test_evaluate import calibrate, write_two_classes

SUMMARIES = [f"site-{k}.fcs" for k in range(3)]


def test_the_table_fits_a_terminal(calibrated: Path, command: Command) -> None:
    pilot = ["--pilot", "predictor.json", "--probs", "test-probs.npy"]
    shown = command.ok("plan", "--sizes", "200,50,20", *pilot).out
    rows = shown.split("\n\n")[0].splitlines()
    assert " ".join(rows[0].split()) == "guarantee feasible at least at most if alike min alpha size"
    assert len(rows) == 11
    assert max(map(len, rows)) <= 80
    assert "new-site: sites needed: 6 more, from the same population" in shown
    assert "mean set sizes are estimates" in shown


def test_a_pilot_reads_tables_as_predict_does(calibrated: Path, command: Command) -> None:
    probs = np.load("test-probs.npy")
    names = [str(k) for k in range(probs.shape[1])]
    lines = [f"p{i},{','.join(map(repr, row))},f" for i, row in enumerate(probs.tolist())]
    (calibrated / "pilot.csv").write_text("\n".join([f"patient,{','.join(names)},sex", *lines]))
    plan = ("plan", "--sizes", "200,50", "--pilot", "predictor.json", "--json", "--probs")
    columns = ("--id", "patient", "--drop", "sex")
    assert command.ok(*plan, "pilot.csv", *columns).json == command.ok(*plan, "test-probs.npy").json
    check(command, ["plan", "--sizes", "200,50", *columns], ["options that name columns go with --probs"])


def test_many_sites_are_not_listed_one_by_one(folder: Path, command: Command) -> None:
    sizes = ",".join(["60"] * 40)
    shown = command.ok("plan", "--sizes", sizes).out
    assert len(shown.splitlines()) < 18
    assert "one-site: left out for 40 sites" in shown
    assert len(command.ok("plan", "--sizes", sizes, "--json").json["options"]) == 47


def test_the_plan_in_json(calibrated: Path, command: Command) -> None:
    options = [
        "--guarantee",
        "worst-case:total_variation=0.2",
        "--guarantee",
        "pac:0.01",
        "--pilot",
        "predictor.json",
        "--probs",
        "probs-0.npy",
    ]
    found = command.ok("plan", "--sizes", "60,60,60", *options, "--json").json
    rows = {option["guarantee"]: option for option in found["options"]}
    assert {"worst-case tv=0.2", "pac 0.01", "new-site"} < set(rows)
    assert rows["mixture"]["expected_coverage"] == pytest.approx(163 / 181)
    assert all(1 <= option["mean_size"] <= 4 for option in found["options"])


def test_a_pilot_with_full_sets(command: Command, folder: Path) -> None:
    write_two_classes(0.15)
    plan = ("plan", "--sizes", "150,150", "--pilot", "two.json", "--probs", "new-probs.npy")
    start = "at least half of the sets are estimated to hold every label with "
    for score, helps in (("raps", True), ("lac", False)):
        calibrate(command, score, "--exact")  # of few published thresholds, the next larger one is full
        done = command.ok(*plan).out
        notes = [line for line in done.splitlines() if line.startswith(start)]
        assert len(notes) == (helps or "worst-case" in "".join(notes))
        assert any("with mixture, " in note for note in notes) == helps
        assert any("new-site" in note for note in notes) is False  # its scores are too few


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--score", "none"], ["no score is called 'none'"]),
        (["--pilot", "predictor.json"], ["--pilot and --probs go together"]),
        (["--probs", "probs-0.npy"], ["--pilot and --probs go together"]),
        (["--pilot", "absent.json", "--probs", "probs-0.npy"], ["absent.json", "No such file"]),
        (["--pilot", "predictor.json", "--probs", "labels-0.npy"], ["labels-0.npy: has one column of probabilities"]),
        (
            ["--guarantee", "worst-case:contamination=0.1,box=0,1"],
            ["takes one set of mixtures, got contamination and box"],
        ),
        (["--guarantee", "worst-case:box=0.5,0.6"], ["box: the lower bounds add up to 1.5"]),
        (["--guarantee", "pac:2"], ["failure is 2"]),
    ],
)
def test_bad_plans(calibrated: Path, command: Command, options: list[str], expected: list[str]) -> None:
    check(command, ["plan", "--sizes", "60,60,60", *options], expected)


@pytest.mark.parametrize(
    ("options", "guarantee"),
    [
        (["worst-case:contamination=0.1"], fc.WorstCase(contamination=0.1)),
        (["worst-case:total_variation=0.2"], fc.WorstCase(total_variation=0.2)),
        (["worst-case:box=0.2,0.5"], fc.WorstCase(box=(0.2, 0.5))),
        (["worst-case"], fc.WorstCase()),
        (["new-site", "--alpha", "0.3"], fc.NewSite()),
        (["pac:failure=0.1"], fc.PAC(failure=0.1)),
        (["pac"], fc.PAC(failure=0.05)),
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


@pytest.mark.parametrize(
    ("guarantee", "expected"),
    [
        (
            "mixture:contamination=0.1",
            ["contamination is out of place; mixture has the parameters weights, most_scores"],
        ),
        ("worst-case:contamination=0.1,total_variation=0.1", ["takes one set of mixtures"]),
        ("worst-case:contamination=x", ["contamination is 'x', expected a number"]),
        ("worst-case:box=0.5,0.2", ["a lower bound is above its upper bound"]),
    ],
)
def test_wrong_parameters(calibrated: Path, command: Command, guarantee: str, expected: list[str]) -> None:
    check(command, ["calibrate", *SUMMARIES, "-o", "out.json", "--guarantee", guarantee], expected)


def test_sites_by_name(calibrated: Path, command: Command) -> None:
    shares = "mixture:weights=site-2=0.5,site-0=0.3,site-1=0.2"
    named = command.ok("calibrate", *SUMMARIES, "-o", "named.json", "--guarantee", shares, "--json").json
    listed = command.ok(
        "calibrate", *SUMMARIES, "-o", "listed.json", "--guarantee", "mixture:0.3,0.2,0.5", "--json"
    ).json
    assert named["certificate"] == listed["certificate"]
    assert named["certificate"]["guarantee"]["weights"] == [0.3, 0.2, 0.5]
    back = command.ok(
        "calibrate", *reversed(SUMMARIES), "-o", "back.json", "--guarantee", "mixture:0.5,0.2,0.3", "--json"
    )
    assert back.json["certificate"] == listed["certificate"]
    assert back.err == "the sites are taken in the order of their names: site-0, site-1, site-2\n"
    command.ok("calibrate", *reversed(SUMMARIES), "-o", "back.json")
    assert Path("back.json").read_bytes() == Path("predictor.json").read_bytes()


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ("site-0=0.5,site-1=0.5", "weights: the site 'site-2' has no value"),
        ("site-0=0.5,site-1=0.5,site-9=0", "weights: there is no site 'site-9'; the sites are site-0, site-1"),
        ("site-0=0.5,site-0=0.5,site-1=0,site-2=0", "weights: give every site one weight"),
        ("site-0=0.5,0.5,0", "weights is 'site-0=0.5,0.5,0', expected numbers"),
    ],
)
def test_weights_that_fit_no_site(calibrated: Path, command: Command, weights: str, expected: str) -> None:
    check(command, ["calibrate", *SUMMARIES, "-o", "out.json", "--guarantee", f"mixture:weights={weights}"], [expected])


def test_a_plan_for_named_sites(calibrated: Path, command: Command) -> None:
    named = command.ok("plan", "--sizes", "a=60,b=60,c=5", "--json").json
    assert [one["guarantee"] for one in named["options"]][-3:] == ["one-site a", "one-site b", "one-site c"]
    assert "4 more at site 'c'" in command.ok("plan", "--sizes", "a=60,b=60,c=5").out
    found = command.ok("plan", *reversed(SUMMARIES), "--json").json
    assert found["sizes"] == [60, 60, 60]
    assert found["options"][-1]["guarantee"] == "one-site site-2"
    check(command, ["plan"], ["give --sizes"])
    check(command, ["plan", "site-0.fcs", "--sizes", "3"], ["one of them"])


def test_a_limit_on_losses(command: Command) -> None:
    done = command.ok("plan", "--risk", "0.1", "--sizes", "200,50,20", "--json")
    assert done.json["options"][0]["guarantee"] == "mixture"
    assert "mean loss" in command.ok("plan", "--risk", "0.1", "--sizes", "200,50,20").out
    for bad, words in ((("--risk", "2"), "risk is 2"), (("--risk", "0.1", "--score", "aps"), "limit on losses")):
        failed = command("plan", *bad, "--sizes", "200,50,20")
        assert failed.code == 2
        assert words in failed.err
