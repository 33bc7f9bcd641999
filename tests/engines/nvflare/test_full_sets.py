"""Sets that hold every label, on NVFlare: the server's log says why, and which site was lost."""

import logging

import pytest

pytest.importorskip("nvflare", reason="running on NVFlare needs nvflare")

import numpy as np

import fedconformal as fc
from fedconformal.certificates.certificate import LeftOut
from fedconformal.engines import nvflare
from fedconformal.engines.nvflare import NVFlareSites
from fedconformal.federated.ask import Answer
from fedconformal.federated.calibration import SiteSummary


@pytest.mark.parametrize(("rows", "said"), [(4, True), (400, False)])
def test_a_lost_site_is_named(
    rows: int, said: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sites = [
        fc.Summary.of_scores(np.linspace(0, 1, rows), kind="ranks", score=fc.LAC(), site=f"site-{k}") for k in range(2)
    ]
    lost = [LeftOut(site="site-2", reason="gave no answer within 60 s")]
    answers = [Answer(site.sites[0], SiteSummary(site)) for site in sites]
    monkeypatch.setattr(NVFlareSites, "ask", lambda *_, **__: answers)
    monkeypatch.setattr(NVFlareSites, "left_out", lambda *_: lost)
    with caplog.at_level(logging.WARNING):
        if said:
            with pytest.warns(fc.InfeasibleWarning):
                nvflare.calibrate(NVFlareSites(), {"w": np.zeros(2)}, alpha=0.1)
            assert "calibrate: alpha=0.1 cannot be promised from these scores" in caplog.text
            assert "the scores of these sites are missing: site-2 (gave no answer within 60 s)" in caplog.text
        else:
            nvflare.calibrate(NVFlareSites(), {"w": np.zeros(2)}, alpha=0.1)
            assert caplog.text == ""
