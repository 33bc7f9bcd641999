"""Groups and limits on losses over Flower: the same answer as by files."""

from typing import Any

import pytest

pytest.importorskip("flwr", reason="running on Flower needs flwr")

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

import fedconformal as fc
from fedconformal.engines.flower import (
    Federation,
    InProcessGrid,
    calibrate,
    calibrate_reply,
    calibrate_risk,
    evaluate_reply,
)
from fedconformal.engines.flower.client import summary_reply
from fedconformal.engines.flower.records import fingerprint, site_of
from fedconformal.errors import ClassCountsWarning, InputError
from tests.engines.flower.tools import MODEL, site_logits

GRID = [0.25, 0.5, 0.75, 1.0]
Groups = dict[str, list[str]]


def groups_of(site: int, rows: int) -> Groups:
    draws = np.random.default_rng(100 + site).integers(0, 2, (2, rows))
    return {"sex": ["FM"[k] for k in draws[0]], "age": [("young", "old")[k] for k in draws[1]]}


def masks_of(site: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(site)
    truth = rng.random((40, 6)) < 0.4
    return np.clip(truth * 0.5 + rng.random((40, 6)) * 0.5, 0, 1), truth


def app(*, grouped: bool = True, losses: bool = False) -> ClientApp:
    """Return an app of somebody else's, with groups or with masks."""
    made = ClientApp()

    @made.query("calibrate")
    def calibrate_rows(msg: Message, context: Context) -> Message:
        site = site_of(context).partition
        if losses:
            return calibrate_reply(msg, context, *masks_of(site))
        logits, labels = site_logits(site)
        return calibrate_reply(msg, context, logits, labels, groups=groups_of(site, len(labels)) if grouped else None)

    @made.query("evaluate")
    def evaluate_rows(msg: Message, context: Context) -> Message:
        logits, labels = site_logits(site_of(context).partition)
        return evaluate_reply(msg, context, logits, labels, groups=groups_of(site_of(context).partition, len(labels)))

    return made


@pytest.mark.parametrize("inner", [fc.Mixture(), fc.ByClass(fc.Mixture())])
def test_by_group_it_is_what_files_give(inner: fc.Guarantee) -> None:
    guarantee = fc.ByGroup(inner)
    with pytest.warns(ClassCountsWarning):
        found = calibrate(Federation(InProcessGrid(app(), 5)), MODEL, alpha=0.3, guarantee=guarantee)
    about: dict[str, Any] = {"alpha": 0.3, "score": fc.LAC(), "model": fingerprint(MODEL), "temperature": 1.0}
    with pytest.warns(ClassCountsWarning):
        sites = [
            fc.summarize(
                fc.softmax(logits),
                labels,
                by_class=inner.by_class,
                groups=groups_of(k, len(labels)),
                site=f"site-{k}",
                **about,
            )
            for k in range(5)
            for logits, labels in [site_logits(k)]
        ]
    assert fc.verify(found.predictor, sites) == []
    assert {one.group for one in found.certificate.promises} >= {"all rows", "sex=F", "age=old"}


def test_a_site_without_groups_is_refused() -> None:
    with pytest.raises(InputError, match="gives no groups"):
        calibrate(Federation(InProcessGrid(app(grouped=False), 3)), MODEL, guarantee=fc.ByGroup())


@pytest.mark.parametrize("guarantee", [fc.Mixture(), fc.EverySite(), fc.PAC(failure=0.1)])
def test_a_limit_on_losses_is_what_files_give(guarantee: fc.Guarantee) -> None:
    loss = fc.FalseNegativeRate()
    wanted: dict[str, Any] = {"risk": 0.3, "guarantee": guarantee}
    federation = Federation(InProcessGrid(app(losses=True), 3))
    found = calibrate_risk(federation, MODEL, loss=loss, thresholds=GRID, **wanted)
    sites = [
        fc.LossSummary.of_losses(
            loss.evaluate(*masks_of(k), thresholds=GRID),
            thresholds=GRID,
            loss=loss,
            site=f"site-{k}",
            model=fingerprint(MODEL),
        )
        for k in range(3)
    ]
    assert found.certificate == fc.calibrate(sites, **wanted).certificate
    assert isinstance(found.predictor, fc.Predictor)
    assert fc.verify(found.predictor, sites) == []


def test_another_grid_is_refused() -> None:
    made = ClientApp()

    @made.query("calibrate")
    def answer(msg: Message, context: Context) -> Message:
        site = site_of(context)
        if site.partition:
            return calibrate_reply(msg, context, *masks_of(site.partition))
        other = fc.FalseNegativeRate().evaluate(*masks_of(0), thresholds=[0.5, 1.0])
        about: dict[str, Any] = {"loss": fc.FalseNegativeRate(), "model": fingerprint(MODEL), "site": site.name}
        made = fc.LossSummary.of_losses(other, thresholds=[0.5, 1.0], **about)
        return summary_reply(msg, context, made)

    federation = Federation(InProcessGrid(made, 3), min_sites=2)
    found = calibrate_risk(federation, MODEL, risk=0.3, loss=fc.FalseNegativeRate(), thresholds=GRID)
    left_out = found.certificate.left_out
    assert len(found.summaries) == 2
    assert left_out is not None
    assert ["grid" in one.reason for one in left_out] == [True]
