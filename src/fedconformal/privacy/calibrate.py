"""Private calibration: one function, three modes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from numpy.typing import ArrayLike

from fedconformal._base.registry import build
from fedconformal.calibration.predictor import Predictor
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee
from fedconformal.privacy.dp import release_threshold
from fedconformal.privacy.local_dp import NoisyHistogram, calibrate_locally
from fedconformal.privacy.sums.coordinator import invite
from fedconformal.privacy.sums.driver import InMemory, certify_session, run_session
from fedconformal.privacy.sums.site import site_from
from fedconformal.summaries import Summary

OPTIONS = {"dp": {"epsilon", "grid"}, "local": set[str](), "sums": {"epsilon", "grid", "reach"}}


def calibrate_privately(
    sites: Sequence[Summary] | Sequence[NoisyHistogram],
    *,
    mode: Literal["dp", "local", "sums"],
    alpha: Any = 0.1,
    guarantee: Guarantee | str = "mixture",
    epsilon: Any = None,
    grid: ArrayLike | None = None,
    reach: Any = None,
) -> Predictor:
    """Calibrate with privacy, and return the predictor; its certificate states the claim.

    Parameters
    ----------
    sites
        Exact summaries, one for each site; with mode "local" the noisy histograms of the sites (`noisy_histogram`).
    mode
        "dp": a trusted coordinator releases the threshold with epsilon-differential privacy. "local": every site adds
        noise before sending anything. "sums": masked sums, of which the coordinator sees only the total; with `epsilon`
        the sites add noise to it. All sites are then in this process; `fedconformal.engines.flower` runs the same
        session over a network.
    alpha
        The miss rate.
    guarantee
        The guarantee: "mixture" or "fcp"; with sums without noise also "pac".
    epsilon
        The privacy budget spent; required for "dp", stated by the histograms for "local".
    grid
        With noise, public candidates for the threshold, of which the last is +inf.
    reach
        With "sums" of regression scores, a public bound that the threshold is not expected to exceed.

    Returns
    -------
    Predictor

    Examples
    --------
    >>> import numpy as np
    >>> from fedconformal import Summary
    >>> sites = [Summary.of_scores(np.arange(4000) / 4000, kind="exact", site=name) for name in "abc"]
    >>> 0.9 <= calibrate_privately(sites, mode="dp", epsilon=1).threshold < 0.95
    True
    """
    if mode not in OPTIONS:
        raise InputError(f"mode is {mode!r}; there are {', '.join(OPTIONS)}", param="mode")
    for name, value in {"epsilon": epsilon, "grid": grid, "reach": reach}.items():
        if value is not None and name not in OPTIONS[mode]:
            raise InputError(f"{name} does not go with mode {mode}; leave it out", param=name)
    inputs: Any = list(sites)
    if mode == "local":
        return calibrate_locally(inputs, alpha=alpha, guarantee=guarantee)
    if mode == "dp":
        return release_threshold(inputs, epsilon=epsilon, alpha=alpha, guarantee=guarantee, grid=grid)
    start = partial(invite, build(guarantee, Guarantee), alpha, epsilon=epsilon, grid=grid, reach=reach)
    return certify_session(run_session(start, InMemory(map(site_from, inputs))))
