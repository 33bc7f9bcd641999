"""Coverage under the certified mixture of the sites, also where the test rows are another mixture."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Booleans, Floats, Integers
from fedconformal._base.names import join_names, name_key
from fedconformal.certificates import text
from fedconformal.certificates.certificate import Certificate
from fedconformal.errors import InputError
from fedconformal.evaluation.intervals import clustered_interval


class Reweighted(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of the sites' coverage with the weights that were certified, or why it is not given."""

    coverage: float | None = None
    low: float | None = None
    high: float | None = None
    mixture: str | None = None
    """The rows that the mixture consists of, in words."""
    why_not: str | None = None
    missing: list[str] = []
    """Certified sites without a test row."""
    others: list[str] = []
    """Sites with test rows that are not in the mixture; their rows do not count here."""

    @property
    def sentence(self) -> str:
        """The result in words."""
        if self.coverage is None:
            return f"Coverage is not reweighted to the certified mixture: {self.why_not}."
        rest = f" (without the rows of {join_names(self.others)}, not in the mixture)" if self.others else ""
        interval = interval_text(self.low, self.high)
        return f"Coverage for a test row {self.mixture}: {self.coverage:.4f}, 95% interval {interval}{rest}."


def interval_text(low: float | None, high: float | None) -> str:
    """Write an interval, or that there is none."""
    return "none (one cluster)" if low is None or high is None else f"{low:.3f} to {high:.3f}"


def reweighted(
    covered: Booleans, owners: NDArray[Any] | None, clusters: Integers | None, certificate: Certificate
) -> Reweighted:
    """Average the coverage of the sites with the certified weights; without clusters, rows are independent.

    Where classes take the place of sites, `owners` are the classes of the rows.
    """
    guarantee, names, _ = certificate.terms()
    certified, shares = certified_shares(certificate)
    if shares is None:
        return Reweighted(why_not=f"the guarantee {text.guarantee_name(certificate.guarantee)} names no single one")
    words = guarantee.inner.audience(names).population
    if len(set(certified)) != len(shares):
        return Reweighted(mixture=words, why_not="the certified sites have no names, or not one each")
    if owners is None:
        return Reweighted(mixture=words, why_not="it needs the site of each test row (sites)")
    seen, index = np.unique(owners.astype(np.str_), return_inverse=True)
    found = select_rows(seen, index, dict(zip(certified, shares, strict=True)))
    if found.missing:
        why = f"there are no test rows of {join_names(found.missing)}"
        if not len(found.rows):
            why += f" (the sites are called {join_names(found.others)})"
        return Reweighted(mixture=words, why_not=why, missing=found.missing, others=found.others)
    mine, places, weights = found.rows, found.sites, found.weights
    rows = mine if clusters is None else clusters[mine]
    low, high = clustered_interval(covered[mine], rows, sites=places, weights=weights) or (None, None)
    coverage = float(weights @ (np.bincount(places, covered[mine]) / np.bincount(places)))
    return Reweighted(coverage=coverage, low=low, high=high, mixture=words, others=found.others)


class MixtureRows(NamedTuple):
    """Rows of a mixture: positions, sites numbered from 0, weights of these; sites without rows, and without weight."""

    rows: Integers
    sites: Integers
    weights: Floats
    missing: list[str]
    others: list[str]


def select_rows(seen: NDArray[np.str_], index: Integers, shares: Mapping[str, Fraction]) -> MixtureRows:
    """Return the rows of the sites with weight; `seen` names the sites with rows, `index` is that of each row."""
    names, wanted = seen.tolist(), [site for site, share in shares.items() if share]
    here = set(names)
    number = {site: k for k, site in enumerate(site for site in wanted if site in here)}
    places = np.array([number.get(name, -1) for name in names])[index]
    rows, weights = np.flatnonzero(places >= 0), np.array([float(shares[site]) for site in number])
    missing, others = [site for site in wanted if site not in number], [name for name in names if name not in number]
    return MixtureRows(rows, places[rows], weights, missing, others)


def certified_shares(certificate: Certificate) -> tuple[list[str], tuple[Fraction, ...] | None]:
    """Return the names of the sites, or classes, and their shares in the promised mixture; None if there is not one."""
    bound, names, sizes = certificate.parties()
    stratum = certificate.by if certificate.by in ("class", "group") else None
    shares = bound.site_shares(sizes, stratum)
    if shares is not None and (sum(shares) != 1 or min(shares) < 0):
        raise InputError("the certificate is malformed: its sites have no scores")
    return names if certificate.provenance.class_scores is not None else list(map(name_key, names)), shares


def shares_by_site(certificate: Certificate) -> dict[str, float] | None:
    """Return the shares of the promised mixture by site; None if there is not one, or if sites are not named."""
    names, shares = certified_shares(certificate)
    if shares is None or len(set(names)) != len(shares):
        return None
    return {name: float(share) for name, share in zip(names, shares, strict=True) if share}
