"""An NVFlare site with a policy: what must not leave does not; how a reason gets to the server, `faulty_job` shows."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nvflare", reason="running on NVFlare needs nvflare")

from fedconformal.engines import nvflare
from fedconformal.errors import InputError
from fedconformal.federated.calibration import ScoreQuestion
from fedconformal.privacy.policy_file import VARIABLE
from tests.engines.nvflare.faulty_job import WEIGHTS, site_logits, site_periods


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, "policy.toml")
    monkeypatch.setattr(nvflare, "collab", SimpleNamespace(site_name="site-0"))


def answered(line: str, policy: str | None = None, **asked: Any) -> dict[str, Any]:
    Path("policy.toml").write_text(line, "utf-8")
    question = ScoreQuestion(model=nvflare.fingerprint(WEIGHTS), **{"guarantee": "mixture"} | asked)
    return nvflare.calibrate_reply(question.to_dict(), WEIGHTS, *site_logits("site-0"), policy=policy)


@pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")
@pytest.mark.parametrize(
    ("line", "asked", "why"),
    [
        ("sums_only = true", {}, "this is of the kind ranks"),
        ('kinds = ["ranks"]', {"kind": "exact"}, "this is of the kind exact"),
        ('kinds = ["ranks"]', {"by_class": True}, "this is of the kind ranks by class"),
        ("least_sites = 2", {}, "this is over 1"),
        ('guarantees = ["mixture"]', {"guarantee": "pac"}, "this is for pac"),
        ('guarantees = ["mixture"]', {"guarantee": None}, "this is for any guarantee"),
        ("largest_epsilon = 1.0", {}, "this has no noise"),
        ("least_rows = 41", {}, "this site has fewer"),
    ],
)
def test_what_must_not_leave(line: str, asked: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError) as caught:
        answered(line, **asked)
    assert str(caught.value) == f"policy.toml, line 1: {line}, and {why}"


@pytest.mark.parametrize(
    "line",
    [
        "sums_only = false",
        'kinds = ["ranks"]',
        "least_sites = 1",
        'guarantees = ["mixture"]',
        'ledger = "mandatory"',
        "least_rows = 40",
    ],
)
def test_what_may_leave(line: str) -> None:
    assert answered(line)["rows"] == 40


def test_another_model_than_the_one_that_is_asked_about() -> None:
    Path("policy.toml").write_text("", "utf-8")
    question = ScoreQuestion(model="0" * 64).to_dict()
    with pytest.raises(InputError, match="is not the one that is asked about"):
        nvflare.calibrate_reply(question, WEIGHTS, *site_logits("site-0"))


def test_an_argument_names_the_policy_too() -> None:
    Path("strict.toml").write_text("least_rows = 50", "utf-8")
    with pytest.raises(InputError, match=r"^strict\.toml, line 1: least_rows = 50"):
        answered("", policy="strict.toml")


def test_a_watch() -> None:
    question = {"predictor": "00" * 32}
    Path("policy.toml").write_text('kinds = ["ranks"]', "utf-8")
    with pytest.raises(InputError, match="and this is of the kind watch"):
        nvflare.watch_reply(question, lambda: site_periods("site-0"))
    Path("policy.toml").write_text("least_rows = 300", "utf-8")
    assert nvflare.watch_reply(question, lambda: site_periods("site-0"))["format"] == "fcw1"
    Path("policy.toml").write_text("least_rows = 301", "utf-8")
    with pytest.raises(InputError, match="this site has fewer"):
        nvflare.watch_reply(question, lambda: site_periods("site-0"))
