"""Coverage under the certified mixture of the sites, also where the test rows are another mixture."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Booleans, Integers
from fedconformal._base.names import join_names, name_key
from fedconformal.certificates import text
from fedconformal.certificates.certificate import Certificate
from fedconformal.errors import InputError
from fedconformal.evaluation.intervals import clustered_interval
from fedconformal.guarantees import FCP, PAC, Mixture, OneSite
from fedconformal.guarantees.mixture import in_proportion

"""How many sites a sentence names at most."""


class Reweighted(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of the sites' coverage with the weights that were certified, or why it is not given."""

    coverage: float | None = None
    low: float | None = None
    high: float | None = None
    mixture: str | None = None
    """The weights in words."""
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
        return f"Coverage of the certified mixture, {self.mixture}: {self.coverage:.4f}, 95% interval {interval}{rest}."


def interval_text(low: float | None, high: float | None) -> str:
    """Write an interval, or that there is none.

    >>> interval_text(0.5, 0.75), interval_text(None, None)
    ('0.500 to 0.750', 'none (one cluster)')
    """
    return "none (one cluster)" if low is None or high is None else f"{low:.3f} to {high:.3f}"


def reweighted(
    covered: Booleans, owners: NDArray[Any] | None, clusters: Integers | None, certificate: Certificate
) -> Reweighted:
    """Average the coverage of the sites with the certified weights; without clusters, rows are independent.

    Where classes play the sites, `owners` are the classes of the rows.
    """
    over_classes = certificate.provenance.class_scores is not None
    found = certified_shares(certificate) if over_classes else certified_mixture(certificate)
    if found is None:
        return Reweighted(why_not=f"the guarantee {text.guarantee_name(certificate.guarantee)} names no single one")
    weights, words = found
    sites = [name_key(site) for used in certificate.summaries for site in used.sites]
    certified = certificate.parties()[1] if over_classes else sites
    if len(set(certified)) != len(weights):
        return Reweighted(mixture=words, why_not="the certified sites have no names, or not one each")
    if owners is None:
        return Reweighted(mixture=words, why_not="it needs the site of each test row (sites)")
    names = owners.astype(np.str_)
    seen = set(np.unique(names).tolist())
    wanted = {site: float(weight) for site, weight in zip(certified, weights, strict=True) if weight}
    others = sorted(seen.difference(wanted))
    if missing := [site for site in wanted if site not in seen]:
        why = f"there are no test rows of {join_names(missing)}"
        if len(missing) == len(wanted):
            why += f" (the sites are called {join_names(others)})"
        return Reweighted(mixture=words, why_not=why, missing=missing, others=others)
    mine = np.flatnonzero(np.isin(names, list(wanted)))
    number = {site: k for k, site in enumerate(wanted)}
    places = np.array([number[name] for name in names[mine].tolist()], dtype=np.int64)
    share = np.array(list(wanted.values()))
    rows = mine if clusters is None else clusters[mine]
    low, high = clustered_interval(covered[mine], rows, sites=places, weights=share) or (None, None)
    coverage = float(share @ (np.bincount(places, covered[mine]) / np.bincount(places)))
    return Reweighted(coverage=coverage, low=low, high=high, mixture=words, others=others)


def certified_mixture(certificate: Certificate) -> tuple[list[Fraction], str] | None:
    """Return the weight of every site and the weights in words; None if no single mixture is promised."""
    guarantee, names, sizes = certificate.terms()
    kept = guarantee.inner
    bound = kept.bind(names, sizes)  # says so if they do not fit
    if isinstance(kept, Mixture):
        words = {"rows": in_proportion(kept.most_scores), "uniform": "each site equally likely"}
        named = words[kept.weights] if isinstance(kept.weights, str) else "with the given weights"
        return _shares(kept.parts(sizes)), named
    if isinstance(kept, FCP):
        return _shares([n + 1 for n in sizes]), "in proportion to n_k + 1"
    if isinstance(kept, PAC) and kept is guarantee:  # by class, every class has a mixture of its own
        return _shares(sizes), "in proportion to n_k"
    if isinstance(bound, OneSite):
        return _shares([int(k == bound.position) for k in range(len(sizes))]), "the one site alone"
    return None


def shares_by_site(certificate: Certificate) -> dict[str, float] | None:
    """Return the shares of the promised mixture by the sites' names; None if it has none, or if they are not named."""
    found = certified_mixture(certificate)
    names = [name_key(site) for used in certificate.summaries for site in used.sites]
    if found is None or len(set(names)) != len(found[0]):
        return None
    return {name: float(share) for name, share in zip(names, found[0], strict=True) if share}


def certified_shares(certificate: Certificate) -> tuple[list[Fraction], str] | None:
    """Return the share of every class, where classes play the sites; None if no single share of each is promised."""
    bound, _, sizes = certificate.parties()
    return (_shares(bound.parts(sizes)), "the classes in the given shares") if isinstance(bound, Mixture) else None


def _shares(parts: Sequence[int | Fraction]) -> list[Fraction]:
    whole = sum(parts)
    if whole <= 0 or min(parts) < 0:
        raise InputError("the certificate is malformed: its sites have no scores")
    return [Fraction(part) / whole for part in parts]
