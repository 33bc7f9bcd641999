"""Loss curves by files: from a site's losses to a threshold that can be verified, and what is refused on the way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.summaries import LossSummary
from tests.cli.command import Command

GRID = np.linspace(0, 1, 11)
SITES = [f"s{k}.fcs" for k in range(3)]


@pytest.fixture
def losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for k in range(3):
        np.save(f"l{k}.npy", np.clip(rng.random((60, 1)) - GRID * rng.random((60, 1)), 0, 1))
    np.save("grid.npy", GRID)
    return tmp_path


@pytest.fixture
def sent(losses: Path, command: Command) -> Path:
    for k in range(3):
        command.ok("summarize-losses", f"l{k}.npy", "-o", SITES[k], "--thresholds", "grid.npy")
    return losses


def summary(path: str) -> LossSummary:
    found = fc.Summary.from_bytes(Path(path).read_bytes())
    assert isinstance(found, LossSummary)
    return found


def test_from_losses_to_a_verified_threshold(sent: Path, command: Command) -> None:
    done = command.ok("calibrate", *SITES, "--risk", "0.4", "-o", "p.json")
    assert "The expected loss is at most 0.4 for a test row from the mixture of the sites" in done.out
    assert "threshold 0.4, certified from 180 rows of 3 sites" in done.out
    rule = fc.load("p.json")
    assert isinstance(rule, fc.Predictor)
    assert rule.threshold == fc.calibrate([summary(site) for site in SITES], risk=0.4).threshold == 0.4
    assert "confirmed from 3 summaries" in command.ok("verify", "p.json", *SITES).out
    missing = command("verify", "p.json", *SITES[:2])
    assert (missing.code, "the certified summary of site 's2' was not given" in missing.out) == (1, True)
    stated = command.ok("calibrate", *SITES, "--risk", "0.4", "-o", "p.json", "--json").json
    assert stated["certificate"]["risk"]["limit"] == 0.4
    assert command.ok("verify", "p.json", *SITES, "--json").json["confirmed"] is True


def test_tables_arrays_and_grids_are_read_alike(losses: Path, command: Command) -> None:
    rows, texts = np.load("l0.npy"), ",".join(map(repr, GRID.tolist()))
    Path("t.csv").write_text(texts + "\n" + "\n".join(",".join(map(repr, row)) for row in rows.tolist()))
    Path("u.csv").write_text("\n".join(",".join(map(repr, row)) for row in rows.tolist()))
    Path("grid.txt").write_text("\n".join(map(repr, GRID.tolist())))
    np.savez("z.npz", losses=rows, thresholds=GRID)
    ways = [
        ("l0.npy", "--thresholds", "grid.npy"),
        ("l0.npy", "--thresholds", texts),
        ("l0.npy", "--thresholds", "grid.txt"),
        ("t.csv",),
        ("t.csv", "--thresholds", "grid.npy"),
        ("u.csv", "--thresholds", "grid.npy"),
        ("z.npz",),
    ]
    made = set()
    for way in ways:
        stated = command.ok("summarize-losses", *way, "-o", "x.fcs", "--site", "a", "--json").json
        assert (stated["rows"], stated["thresholds"], stated["kind"]) == (60, 11, "losses")
        made.add(Path("x.fcs").read_bytes())
    assert len(made) == 1


@pytest.mark.parametrize(
    ("header", "lines", "options", "words"),
    [
        ("0,1,2", ["1,0.5,0", "0.2,0.4,0"], [], "t.csv: line 3 rises from 0.2 to 0.4 at threshold 1"),
        ("0,1,2", ["1,0.5,0", "2,0.4,0"], [], "line 3 is 2 at threshold 0, expected a loss from 0 to the bound 1"),
        ("0,1,2", ["1,0.5,0", "nan,0.4,0"], [], "t.csv: line 3, column 0 holds nan, a missing value"),
        ("0,2,1", ["1,0.5,0"], [], "thresholds: 1 after 2; list them in rising order"),
        ("a,b,c", ["1,0.5,0"], [], "t.csv: the header has a, expected a threshold, a number"),
        ("0,1,2", ["1,0.5,0"], ["--thresholds", "0,x"], "--thresholds has x, expected a threshold, a number"),
        ("0,1,2", ["1,0.5,0"], ["--thresholds", "0,1"], "expected (rows, 2), a column for each threshold"),
        ("0,1,2", ["1,0.5,0"], ["--bound", "0"], "bound is 0.0, expected a number from 1e-06 to 1e+06"),
    ],
)
def test_bad_losses_are_one_line_and_nothing_is_written(
    losses: Path, command: Command, header: str, lines: list[str], options: list[str], words: str
) -> None:
    Path("t.csv").write_text("\n".join([header, *lines]))
    done = command("summarize-losses", "t.csv", "-o", "x.fcs", *options)
    assert done.code == 2
    assert words in done.err
    assert len(done.err.splitlines()) == 1
    assert not Path("x.fcs").exists()


def test_sites_that_do_not_go_together(sent: Path, command: Command) -> None:
    other = ",".join(map(str, (GRID + 0.5).tolist()))
    command.ok("summarize-losses", "l1.npy", "-o", "grid.fcs", "--thresholds", other)
    command.ok("summarize-losses", "l1.npy", "-o", "bound.fcs", "--thresholds", "grid.npy", "--bound", "2")
    for bad, words in (
        ("grid.fcs", "grid of 11 thresholds from 0 to 1 against one of 11 thresholds from 0.5 to 1.5"),
        ("bound.fcs", "bound 1.0 against 2.0"),
    ):
        done = command("calibrate", "s0.fcs", bad, "--risk", "0.4", "-o", "p.json")
        assert f"s0.fcs and {bad} do not go together: {words}" in done.err
        assert len(done.err.splitlines()) == 1
    assert not Path("p.json").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "loss curves have no scores; calibrate them with risk= (--risk)"),
        (["--risk", "1"], "risk is 1, expected a number above 0 and below the bound 1"),
        (["--risk", "0.4", "--alpha", "0.2"], "leave out --alpha and --privacy"),
        (["--safe", "x"], "--safe goes with --risk"),
        (["--risk", "0.4", "--guarantee", "fcp"], "fcp is no promise on losses: it is the paper's theorem"),
    ],
)
def test_bad_calibrations_are_refused(sent: Path, command: Command, options: list[str], words: str) -> None:
    done = command("calibrate", *SITES, *options, "-o", "p.json")
    assert (done.code, words in done.err, Path("p.json").exists()) == (2, True, False)


def test_scores_are_no_losses(sent: Path, command: Command) -> None:
    Path("a.fcs").write_bytes(fc.Summary.of_scores([0.1, 0.2], site="a").to_bytes())
    done = command("calibrate", "a.fcs", "--risk", "0.4", "-o", "p.json")
    assert "sent scores, not losses" in done.err


def test_no_threshold_is_good_enough(sent: Path, command: Command) -> None:
    done = command.ok("calibrate", *SITES, "--risk", "0.01", "--safe", "ask a doctor", "-o", "p.json")
    assert "risk=0.01 cannot be promised at any threshold of the grid" in done.err
    assert "so take the safe action: ask a doctor." in done.out
    checked = command("verify", "p.json", *SITES)
    assert checked.code == 1  # words of one's own follow from no summary
    assert "safe" in checked.out
    assert "not confirmed" in checked.out
    assert "ask a doctor" in command.ok("show", "p.json").out


def test_new_rows_are_evaluated(sent: Path, command: Command) -> None:
    command.ok("calibrate", *SITES, "--risk", "0.4", "-o", "p.json")
    Path("c.txt").write_text("\n".join(["a", "b"] * 30))
    rows = np.load("l1.npy")
    done = command.ok("evaluate", "p.json", "l1.npy", "--sites", "c.txt")
    assert f"{rows[:, 4].mean():.4f}" in done.out
    assert f"{rows[::2, 4].mean():.4f}" in done.out
    assert "of one calibration the mean loss may be above the limit by luck" in done.out
    found = command.ok("evaluate", "p.json", "l1.npy", "--json").json
    assert found["overall"]["mean_loss"] == pytest.approx(rows[:, 4].mean())
    other = command.ok("evaluate", "p.json", "l1.npy", "--json", "--risk", "0.5").json
    assert (other["risk"], other["threshold"]) == (0.5, found["threshold"])  # few limits of 180 rows are published
    command.ok("calibrate", *SITES, "--risk", "0.4", "--exact", "-o", "exact.json")
    other = command.ok("evaluate", "exact.json", "l1.npy", "--json", "--risk", "0.5").json
    assert (other["risk"], other["threshold"] < found["threshold"]) == (0.5, True)
    np.savez("other.npz", losses=rows, thresholds=GRID + 1)
    for arguments, words in (
        (["p.json", "l1.npy", "--alpha", "0.1"], "give LOSSES, or SCORES and TRUTH, and no more than --sites"),
        (["p.json", "other.npz"], "other.npz: has other thresholds than the predictor"),
    ):
        assert words in command("evaluate", *arguments).err


def test_rows_that_contradict_a_promise_for_nearly_all_draws(sent: Path, command: Command) -> None:
    command.ok("calibrate", *SITES, "--risk", "0.4", "--guarantee", "pac", "-o", "p.json")
    np.save("bad.npy", np.ones((200, 11)))
    done = command("evaluate", "p.json", "bad.npy", "--check")
    assert (done.code, "These rows contradict the promise" in done.out) == (1, True)
    assert command("evaluate", "p.json", "l1.npy", "--check").code == 0


def test_a_promise_to_a_mixture_is_checked_on_that_mixture(sent: Path, command: Command) -> None:
    """The sites have 60 rows each; most of the new rows are of the one that loses much."""
    command.ok("calibrate", *SITES, "--risk", "0.4", "--guarantee", "pac", "-o", "p.json")
    np.save("new.npy", np.repeat([0.9, 0.1, 0.1], [800, 100, 100]))
    np.save("sites.npy", np.repeat(["s0", "s1", "s2"], [800, 100, 100]))
    done = command("evaluate", "p.json", "new.npy", "--check")
    assert done.code == 1
    assert "as the site of each row is not known" in done.out
    done = command.ok("evaluate", "p.json", "new.npy", "--sites", "sites.npy", "--check")
    assert done.out.splitlines()[2].split()[:4] == ["promised", "mixture", "1000", "0.3667"]
    assert "as the site of each row is not known" not in done.out
    np.save("new.npy", np.repeat([0.1, 0.9, 0.9], [800, 100, 100]))
    assert command.ok("evaluate", "p.json", "new.npy", "--check").code == 0
    assert command("evaluate", "p.json", "new.npy", "--sites", "sites.npy", "--check").code == 1
    stated = command.ok("evaluate", "p.json", "new.npy", "--sites", "sites.npy", "--json").json
    assert (stated["contradicts"], stated["mixture"]["mean_loss"]) == (True, pytest.approx(19 / 30))


def test_show_says_what_a_reader_learns(sent: Path, command: Command) -> None:
    shown = command.ok("show", "s0.fcs").out
    assert "the mean loss of its rows at each of 11 thresholds" in shown
    assert command.ok("show", "s0.fcs", "--json").json["holds"]["bound"] == 1.0
    command.ok("calibrate", *SITES, "--risk", "0.4", "-o", "p.json")
    rule = command.ok("show", "p.json").out
    assert "limit of the expected loss  0.4" in rule
    # Expected losses are rounded up to few limits, so a reader does not learn the mean loss at every threshold.
    assert "from the expected losses that are promised about the mean loss over all sites" in rule


def test_a_policy_can_forbid_losses(losses: Path, command: Command) -> None:
    Path("policy.toml").write_text('kinds = ["ranks"]\n')
    done = command("summarize-losses", "l0.npy", "-o", "x.fcs", "--thresholds", "grid.npy", "--policy", "policy.toml")
    assert 'kinds = ["ranks"], and this is of the kind losses' in done.err
    assert not Path("x.fcs").exists()
    Path("policy.toml").write_text('kinds = ["losses"]\n')
    command.ok("summarize-losses", "l0.npy", "-o", "x.fcs", "--thresholds", "grid.npy", "--policy", "policy.toml")


def test_inputs_are_never_overwritten(losses: Path, command: Command) -> None:
    Path("t.fcs").write_bytes(Path("l0.npy").read_bytes())
    done = command("summarize-losses", "l0.npy", "-o", "t.fcs", "--thresholds", "grid.npy")
    assert "t.fcs: exists, and is not a summary" in done.err


def test_a_plan_is_for_coverage(losses: Path, command: Command) -> None:
    command.ok("summarize-losses", "l0.npy", "-o", "two.fcs", "--thresholds", "grid.npy", "--bound", "2")
    done = command("plan", "two.fcs")
    assert (done.code, "loss curves have no scores" in done.err) == (2, True)


def test_a_predictor_of_unnamed_losses_says_what_it_can_do(sent: Path, command: Command) -> None:
    command.ok("calibrate", *SITES, "--risk", "0.4", "-o", "p.json")
    done = command("predict", "p.json", "l0.npy", "-o", "x.csv")
    assert (done.code, "p.json: does not say which loss it limits" in done.err) == (2, True)
    np.save("masks.npy", np.zeros((4, 3, 3)))
    done = command("evaluate", "p.json", "masks.npy")
    assert (done.code, "if these are scores, give TRUTH" in done.err) == (2, True)
    shown = command.ok("show", "p.json", "--json").json
    assert shown["what"] == "a predictor that limits a loss with its certificate"
    assert ("alpha" in shown["holds"], shown["holds"]["rows"]) == (False, 180)
