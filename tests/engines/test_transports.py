"""The contract of an engine: the certificate is that of files, a bad site is refused by itself, policies are asked."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.errors import InputError
from fedconformal.federated.ask import MAX_BYTES
from fedconformal.federated.calibration import calibrate
from fedconformal.federated.evaluation import Counts, evaluate
from fedconformal.federated.watch import watch
from fedconformal.monitoring.combine import combine
from fedconformal.privacy.policy import VARIABLE
from fedconformal.report import watch_page
from tests.engines.transports import ROWS, TRANSPORTS, SiteApp, logits_of
from tests.monitoring.streams import PREDICTOR, messages

pytestmark = [
    pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning"),
    pytest.mark.filterwarnings("ignore::fedconformal.errors.InfeasibleWarning"),
]

Run = Callable[[SiteApp], tuple[Any, Any]]
BAD = "site-2"
WATCHED = PREDICTOR.hex()


@pytest.fixture(params=TRANSPORTS)
def on(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Return the sites of an app, and the model, on an engine."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "policy.toml"))
    (tmp_path / "policy.toml").write_text("", "utf-8")
    return lambda app: TRANSPORTS[request.param](app, monkeypatch, tmp_path)


def named(site: str) -> dict[str, Any]:
    """Return probabilities, some of them zero, and labels by name."""
    rows = logits_of(site)
    return {"outputs": np.eye(4)[rows["truth"]], "truth": np.array(list("abcd"))[rows["truth"]], "probabilities": True}


def periods_of(site: str) -> list[Any]:
    return messages(site, [0.1] * 4 if site != "site-1" else [0.1] * 2 + [0.6] * 12, rows=100)


@pytest.mark.parametrize(
    ("asked", "rows"),
    [
        ({"score": fc.APS(randomized=True, random_state=3), "temperature": 1.5}, logits_of),
        ({"guarantee": fc.ByGroup(fc.Mixture())}, logits_of),
        ({"guarantee": fc.ByGroup(fc.ByClass(fc.Mixture()))}, logits_of),
        ({"classes": ("a", "b", "c", "d")}, named),
    ],
    ids=["score", "groups", "classes in groups", "names"],
)
def test_it_is_what_files_give(on: Run, asked: dict[str, Any], rows: Any) -> None:
    app = SiteApp(rows=rows)
    sites, model = on(app)
    found = calibrate(sites, model, alpha=0.3, **asked)
    guarantee, temperature = asked.get("guarantee", fc.Mixture()), asked.get("temperature", 1.0)
    expected = []
    for site in app.names:
        own = rows(site)
        probs = own["outputs"] if rows is named else fc.softmax(own["outputs"], temperature=temperature)
        about: dict[str, Any] = {"groups": own["groups"]} if guarantee.by_group else {}
        about |= {"classes": asked.get("classes"), "by_class": guarantee.by_class, "temperature": temperature}
        about |= {"score": asked.get("score", "lac"), "model": sites.fingerprint(model), "site": site, "alpha": 0.3}
        expected.append(fc.summarize(probs, own["truth"], **about))
    assert found.certificate == fc.calibrate(expected, alpha=0.3, guarantee=guarantee).certificate
    assert fc.verify(found.predictor, expected) == []


def fail(reply: bytes) -> Any:
    raise ValueError("the disk is full")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (fail, "failed: ValueError: the disk is full"),
        (lambda sent: sent[:-9], "truncated or"),
        (lambda _: "FCS1", "sent FCS1, expected bytes"),
        (lambda _: bytes(MAX_BYTES + 1), f"more than {MAX_BYTES}"),
    ],
    ids=["raises", "truncated", "text", "too large"],
)
def test_a_bad_site_is_refused_and_named(on: Run, fault: Any, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    sites, model = on(SiteApp(faults={BAD: fault}))
    with caplog.at_level(logging.WARNING):
        found = calibrate(sites, model, alpha=0.3)
    assert [record.sites[0] for record in found.certificate.summaries] == ["site-0", "site-1", "site-3"]
    (left_out,) = found.certificate.left_out or []
    assert reason in left_out.reason
    assert reason in caplog.text
    assert found.certificate.threshold == fc.calibrate(found.summaries, alpha=0.3).threshold
    assert fc.verify(found.predictor, found.summaries, sealed=True) == []
    sites.min_sites = 4
    with pytest.raises(InputError, match="calibrate: 3 valid answers, at least 4 are needed"):
        calibrate(sites, model, alpha=0.3)


def test_too_few_scores_and_a_lost_site_are_the_reason_for_full_sets(on: Run, caplog: pytest.LogCaptureFixture) -> None:
    sites, model = on(SiteApp(faults={BAD: fail}))
    with caplog.at_level(logging.WARNING):
        calibrate(sites, model, alpha=0.001)
    assert "calibrate: alpha=0.001 cannot be promised from these scores" in caplog.text
    assert "the scores of these sites are missing: " in caplog.text


def test_sites_count_on_their_own_rows(on: Run) -> None:
    impossible = Counts(rows=ROWS, covered=10**6, size=1.0, unbounded=0).to_bytes()
    sites, model = on(SiteApp(faults={BAD: lambda sent: impossible if len(sent) < 100 else sent}))
    predictor = calibrate(sites, model, alpha=0.3).predictor
    found = evaluate(sites, model, predictor)
    assert set(found) == {"site-0", "site-1", "site-3"}
    rows = logits_of("site-0")
    expected = predictor.evaluate(fc.softmax(rows["outputs"]), rows["truth"]).overall
    assert (found["site-0"].rows, found["site-0"].coverage) == (ROWS, expected.coverage)
    assert found["site-0"].mean_size == pytest.approx(expected.mean_size)
    assert found["site-0"].accuracy == np.mean(rows["outputs"].argmax(axis=1) == rows["truth"])


def test_a_watch_is_that_of_files(on: Run) -> None:
    app = SiteApp(periods=periods_of)
    found = watch(on(app)[0], WATCHED)
    by_hand = [period for site in app.names for period in periods_of(site)]
    assert list(found.periods) == by_hand
    assert combine(found.periods).all_rows.named == ("site-1",)
    found = watch(on(SiteApp(periods=periods_of, faults={BAD: fail}))[0], WATCHED)
    ((site, why),) = found.refused
    assert "the disk is full" in why
    assert f"<td>{site}</td><td>left out</td>" in watch_page(found.periods, refused=found.refused)


def predictor() -> fc.Predictor:
    about: dict[str, Any] = {"score": fc.LAC(), "temperature": 1.0, "precision": "float32"}
    return fc.calibrate([fc.Summary.of_scores(np.linspace(0, 1, 99), **about)], alpha=0.3)


ASKED: dict[str, tuple[SiteApp, Callable[[Any, Any], Any], str]] = {
    "summary": (SiteApp(), lambda sites, model: calibrate(sites, model, alpha=0.3), "ranks"),
    "watch": (SiteApp(periods=periods_of), lambda sites, _: watch(sites, WATCHED), "watch"),
    "evaluation": (SiteApp(), lambda sites, model: evaluate(sites, model, predictor()), "evaluation"),
}


@pytest.mark.parametrize("what", ASKED)
def test_nothing_leaves_a_site_against_its_policy(on: Run, what: str, tmp_path: Path) -> None:
    """The coordinator learns the line of the policy that is in the way, not where the file is."""
    app, ask, kind = ASKED[what]
    path = tmp_path / "policy.toml"
    for line, why in (
        ("sums_only = true", f"this is of the kind {kind}"),
        ("least_sites = 2", "this is over 1"),
        ("largest_epsilon = 1.0", "this has no noise"),
        ("least_rows = 1000", "this site has fewer"),
    ):
        path.write_text(f"# ours\n{line}", "utf-8")
        with pytest.raises(InputError, match="0 valid answers") as error:
            ask(*on(app))
        assert f"the site's policy: {line}, and {why}" in str(error.value)
        assert str(tmp_path) not in str(error.value)
    path.write_text(f'kinds = ["{kind}"]\nleast_rows = 10', "utf-8")
    ask(*on(app))
    path.unlink()
    with pytest.raises(InputError, match=r"InputError: policy\.toml: cannot be read"):
        ask(*on(app))
