"""Scores for a promise to fresh sites, when every site is needed for training.

A model that was trained on a site looks better there than it will on a fresh one, so its scores there are too
low to promise anything to a fresh site. Left out in turn, each site is scored by a model that has not seen it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import ArrayLike

from fedconformal._base.spec import build
from fedconformal.errors import InputError
from fedconformal.scores import Score
from fedconformal.summaries import Summary
from fedconformal.summaries.rows import summarize

Site = tuple[Any, ArrayLike]
Predict = Callable[[Any], ArrayLike]
Fit = Callable[[dict[str, Site]], Predict]

MODEL = "leave-one-site-out"


def leave_one_site_out(
    sites: Mapping[str, Site],
    fit: Fit | Mapping[str, Predict],
    *,
    score: Score | str = "lac",
    kind: str = "exact",
    alpha: Any = None,
    model: str = MODEL,
) -> list[Summary]:
    """Summarise each site's scores under a model trained on the other sites, for `NewSite`.

    `sites` holds (X, y) by name. `fit` is a function that takes such a dict of the other sites, trains, and
    returns predict_proba; or a dict of ready-made ones, each trained without the site it is listed under.

    What this promises: nothing for sure, so a calibration from it is "estimated". `NewSite` is exact for *one*
    model that saw none of the sites. Here every site has a model of its own, and the one in use afterwards, trained
    on all sites, is yet another. For models that one site hardly changes, coverage is close to what is stated, as
    experience with the jackknife shows. No theorem says so: a learner that is good only for an even number of sites
    covers nothing. For the certified promise, train on some of the sites and calibrate on the others. The certificate
    names the model "leave-one-site-out".

    >>> from fedconformal import LAC, NewSite, calibrate
    >>> sites = {f"site-{k}": ([[k], [k + 1]] * 3, [0, 1] * 3) for k in range(5)}
    >>> def fit(others):
    ...     share = sum(sum(y) for _, y in others.values()) / sum(len(y) for _, y in others.values())
    ...     return lambda rows: [[1 - share, share]] * len(rows)
    >>> summaries = leave_one_site_out(sites, fit, score=LAC())
    >>> calibrate(summaries, alpha=0.2, guarantee=NewSite()).threshold
    0.5
    """
    if len(sites) < 2:
        raise InputError(f"leave_one_site_out: needs two sites at least, got {len(sites)}")
    if not callable(fit) and set(fit) != set(sites):
        odd = ", ".join(repr(name) for name in sorted(set(fit) ^ set(sites))[:5])
        raise InputError(f"leave_one_site_out: expected one predictor for each site; {odd} has no counterpart")
    score = build(score, Score)
    summaries = []
    for name, (rows, labels) in sites.items():
        predict = fit({other: site for other, site in sites.items() if other != name}) if callable(fit) else fit[name]
        try:
            about = {"score": score, "alpha": alpha, "site": name, "model": model, "estimated": True}
            summaries.append(summarize(predict(rows), labels, kind=kind, **about))
        except InputError as error:
            raise error.at(f"site {name!r}") from None
    return summaries
