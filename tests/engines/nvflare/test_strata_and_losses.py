"""Groups and losses on NVFlare: the same certificate as from the sites' own summaries."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nvflare", reason="running on NVFlare needs nvflare")

import numpy as np

import fedconformal as fc
from fedconformal.engines import nvflare
from fedconformal.federated.ask import Answer
from fedconformal.federated.calibration import LossQuestion

WEIGHTS = {"w": np.zeros(2)}
SITES = [f"site-{k}" for k in range(3)]
GRID = np.linspace(0, 1, 21)


def rows_of(site: str) -> tuple[Any, Any, dict[str, Any]]:
    """Return logits, labels and groups."""
    rng = np.random.default_rng(SITES.index(site))
    return rng.normal(size=(90, 3)), rng.integers(0, 3, 90), {"sex": rng.choice(["F", "M"], 90)}


def masks_of(site: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(SITES.index(site))
    truth = rng.random((40, 6)) < 0.3
    return np.clip(0.4 * truth + 0.6 * rng.random(truth.shape), 0, 1), truth


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Let sites answer in this process; what they send is kept."""
    sent: list[bytes] = []

    def ask(_: Any, question: Any, weights: Any) -> list[Any]:
        answers = []
        for site in SITES:
            monkeypatch.setattr(nvflare, "collab", SimpleNamespace(site_name=site))
            logits, labels, groups = rows_of(site)
            losses = isinstance(question, LossQuestion)
            rows = masks_of(site) if losses else (logits, labels)
            more: dict[str, Any] = {} if losses else {"groups": groups}
            reply = nvflare.calibrate_reply(question.to_dict(), weights, *rows, **more)
            sent.append(reply["data"])
            answers.append(Answer(site, question.read(reply, site=site)))
        return answers

    monkeypatch.setattr(nvflare.NVFlareSites, "ask", ask)
    return sent


@pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")
def test_by_group(asked: list[bytes]) -> None:
    found = nvflare.calibrate(nvflare.NVFlareSites(), WEIGHTS, alpha=0.3, guarantee=fc.ByGroup())
    assert [one.group for one in found.certificate.promises] == ["all rows", "sex=F", "sex=M"]
    assert fc.verify(found.predictor, [fc.Summary.from_bytes(data) for data in asked]) == []
    logits, labels, groups = rows_of("site-0")
    counts = nvflare.evaluate_reply({"predictor": found.predictor.to_bytes()}, logits, labels, groups=groups)
    assert counts["rows"] == 90


def test_a_limit_on_losses(asked: list[bytes]) -> None:
    loss = fc.FalseNegativeRate()
    found = nvflare.calibrate_risk(nvflare.NVFlareSites(), WEIGHTS, risk=0.3, loss=loss, thresholds=GRID)
    about: dict[str, Any] = {"thresholds": GRID, "loss": loss, "model": nvflare.fingerprint(WEIGHTS)}
    sites = [
        fc.LossSummary.of_losses(loss.evaluate(*masks_of(site), thresholds=GRID), site=site, **about) for site in SITES
    ]
    assert asked == [site.to_bytes() for site in sites]
    assert found.certificate == fc.calibrate(sites, risk=0.3).certificate
