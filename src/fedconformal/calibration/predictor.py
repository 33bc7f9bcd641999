"""A score and a promise curve: everything it takes to turn probabilities into prediction sets."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal import evaluation
from fedconformal._base import registry
from fedconformal._base.arrays import Booleans, Floats, Integers, Probabilities, as_alpha
from fedconformal._base.classes import in_order
from fedconformal._base.groups import ALL, Groups
from fedconformal._base.names import listed, shown
from fedconformal.calibration.certificate import Certificate
from fedconformal.calibration.curve import (
    CurveFields,
    GroupCurves,
    PromiseCurve,
    SetCurve,
    SiteFields,
    fields_of,
    read_curve,
)
from fedconformal.calibration.document import Document, check_score
from fedconformal.calibration.membership import (
    SiteCurves,
    check_sites,
    members_for,
    needed_of,
    own_sites,
    read_sites,
    site_members,
)
from fedconformal.certificates import text
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.scores import Score


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the JSON file holds, field by field."""

    score: dict[str, Any] | None
    certificate: Certificate
    curve: CurveFields | list[CurveFields | list[CurveFields | None] | None]
    sites: list[SiteFields] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Predictor(Document):
    """Turns probabilities into sets that keep the certificate's promise.

    >>> from fedconformal import LAC, Summary, calibrate
    >>> site = Summary.of_scores(LAC().evaluate([[0.75, 0.25]] * 9, [0] * 8 + [1]), site="a", score=LAC())
    >>> predictor = calibrate([site], alpha=0.2, exact=True)
    >>> predictor
    Predictor(LAC(), alpha=0.2, threshold=0.25, certified: mixture of 1 site)
    >>> predictor.predict_set([[0.7, 0.3], [0.8, 0.2]], allow_empty=True)
    array([[False, False],
           [ True, False]])
    >>> predictor.predict_p([[0.7, 0.3], [0.8, 0.2]])
    array([[0.2, 0.2],
           [1. , 0.1]])
    """

    kind = "fedconformal predictor"

    certificate: Certificate
    curve: SetCurve
    site_curves: SiteCurves | None = None
    """The promise curve of every site, where each has a threshold of its own; `curve` is for rows of any site."""

    def __post_init__(self) -> None:
        if not np.array_equal(self.curve.threshold(as_alpha(self.certificate.alpha)), self.certificate.limit):
            raise InputError("the promise curve and the certificate give different thresholds")
        check_sites(self.certificate, self.site_curves)

    @cached_property
    def score(self) -> Score:
        """The score that the summaries name."""
        if self.certificate.score is None:
            raise InputError("the summaries do not say which score they hold; summarise with score=")
        return registry.build(self.certificate.score, Score)

    @property
    def threshold(self) -> float | Floats:
        """The certified threshold; an array for a promise given the class, or by group. +inf if nothing is promised."""
        return self.certificate.limit

    def threshold_at(self, alpha: Any = None, *, site: str | None = None) -> float | Floats:
        """Return the threshold at alpha, by default the certified one; +inf, with a warning, if it is too small.

        For a promise given the class it is an array with one for each class; for one by group, with one for each group
        of the certificate, or a row of these. For a promise to every site it is that of `site`, or the largest.
        """
        if site is not None:
            (found,) = self._of_sites(alpha, site_members(self.certificate, site, 1)).values()
            return float(found)
        threshold = self._threshold(alpha)
        self._warn(alpha, threshold)
        return threshold.copy() if isinstance(threshold, np.ndarray) else threshold

    def _of_sites(self, alpha: Any, sites: Iterable[str]) -> dict[str, Floats]:
        """Return the thresholds of these sites."""
        wanted, curves = as_alpha(self.certificate.alpha if alpha is None else alpha), self.site_curves or {}
        found = {site: np.array(curves[site].threshold(wanted)) for site in sites}
        self._warn(alpha, np.array([*found.values()]), list(found))
        return found

    def _threshold(self, alpha: Any) -> float | Floats:
        return self._certified if alpha is None else self.curve.threshold(as_alpha(alpha))

    @cached_property
    def _certified(self) -> float | Floats:
        return self.certificate.limit

    def _warn(self, alpha: Any, threshold: float | Floats, strata: Sequence[str] | None = None) -> None:
        """Warn of what cannot be promised; `strata` are the groups or sites of the thresholds, if not all groups."""
        if (threshold.max(initial=-math.inf) if isinstance(threshold, np.ndarray) else threshold) < math.inf:
            return
        start = f"alpha={float(as_alpha(self.certificate.alpha if alpha is None else alpha)):g} cannot be promised"
        if strata is None and isinstance(self.curve, PromiseCurve):
            words = (
                "so every label is in every set; "
                f"the thresholds of this predictor promise {float(self.curve.most):.6g} at most"
            )
            start += ","
        elif strata is not None or isinstance(self.curve, GroupCurves):
            if strata is None and isinstance(self.curve, GroupCurves):
                strata = list(self.curve.of_group)
            full = [
                name for name, limit in zip(strata or (), np.asarray(threshold), strict=True) if np.isinf(limit).any()
            ]
            words = f"to {listed(full)}, where labels are in every set; too few scores were seen there"
        else:
            lacking = np.flatnonzero(np.isinf(threshold)).tolist()
            words = f"{text.in_every_set(lacking, self.certificate.labels)}; too few scores of them were seen"
        warnings.warn(f"{start} {words}", InfeasibleWarning, stacklevel=3)

    def predict_set(
        self,
        probs: ArrayLike,
        *,
        groups: Groups | None = None,
        sites: ArrayLike | None = None,
        alpha: Any = None,
        allow_empty: bool = False,
    ) -> Booleans:
        """Return (n, J) booleans, or (n, J, A) for a list of A alphas.

        A predictor by group needs the `groups` of the rows, such as {"sex": [...], "age": [...]}. One for every site
        takes the `sites` of the rows, or one name for all of them; without, the largest threshold. Each alpha must have
        been fixed beforehand; picking one after looking at sets voids the promise.
        """
        if isinstance(alpha, Sequence | np.ndarray) and not isinstance(alpha, str) and np.ndim(alpha):
            if np.ndim(alpha) != 1 or not len(alpha):
                raise InputError(f"alpha is {shown(alpha)}, expected a number between 0 and 1, or a list of such")
            about: dict[str, Any] = {"groups": groups, "sites": sites, "allow_empty": allow_empty}
            return np.stack([self.predict_set(probs, alpha=a, **about) for a in alpha], axis=-1)
        threshold, forms = self._threshold(alpha), self._as_scored(probs)
        members = self._members(groups, len(forms[0]))
        if sites is not None:
            own = site_members(self.certificate, sites, len(forms[0]))
            found = np.zeros(forms[0].shape, dtype=np.bool_)
            for site, limit in self._of_sites(alpha, own).items():
                some = [form[own[site]] for form in forms]
                found[own[site]] = self._sets(some, limit, allow_empty=allow_empty)
            return found
        if members is None or not isinstance(self.curve, GroupCurves):
            self._warn(alpha, threshold)
            return self._sets(forms, np.asarray(threshold), allow_empty=allow_empty)
        limits = dict(zip(self.curve.of_group, np.asarray(threshold), strict=True))
        self._warn(alpha, np.array([limits[group] for group in members]), list(members))
        sets = self._sets(forms, limits[ALL], allow_empty=allow_empty)
        for group, mine in members.items():
            if (limits[group] > limits[ALL]).any():  # else it adds nothing
                sets[mine] |= self._sets([form[mine] for form in forms], limits[group], allow_empty=True)
        return sets

    def _sets(self, forms: Sequence[Probabilities], limit: Floats, *, allow_empty: bool) -> Booleans:
        first, *others = forms
        if limit.ndim:  # a class that no site has seen is in every set
            limit = np.append(limit, np.full(max(0, first.shape[1] - len(limit)), math.inf))
        answer = self.score.predict_set if limit.ndim else self.score.sets_of  # which takes one number as it is
        sets = answer(first, limit, allow_empty=allow_empty)
        for other in others:
            sets |= answer(other, limit, allow_empty=True)
        return sets

    def predict_p(self, probs: ArrayLike, *, groups: Groups | None = None, sites: ArrayLike | None = None) -> Floats:
        """Return (n, J) p-values; {p > alpha} is the set at alpha (before the top label is forced in)."""
        forms = self._as_scored(probs)
        members, found = self._members(groups, len(forms[0])), list[Floats]()
        own = None if sites is None else site_members(self.certificate, sites, len(forms[0]))
        for scores in map(self.score.evaluate_all, forms):
            if own is not None:
                found.append(GroupCurves(self.site_curves or {}).p_values(scores, own))
            elif isinstance(self.curve, GroupCurves):
                found.append(self.curve.p_values(scores, members or {}))
            else:
                found.append(self.curve.p_values(scores))
        return found[0] if len(found) == 1 else np.maximum(*found)

    def _members(self, groups: Groups | None, rows: int) -> dict[str, Integers] | None:
        if isinstance(self.curve, GroupCurves):
            return members_for(self.certificate, groups, rows)
        if groups is not None:
            raise InputError("the predictor was not calibrated by group; leave them out", where="groups")
        return None

    def _as_scored(self, probs: ArrayLike) -> list[Probabilities]:
        """Return the probabilities as they were scored at calibration, once their classes are checked.

        Rounded to float32, if the certificate says so. If it says nothing, probabilities in float64 count both as they
        are and rounded: a label that conforms either way is in the set, so nothing is lost whichever was scored.
        """
        matrix = in_order(probs, self.certificate.labels)
        if matrix.dtype == np.float32:
            return [matrix]
        with np.errstate(over="ignore"):  # a number too large for float32 is no probability, and refused as such
            rounded = matrix.astype(np.float32)
        return [rounded] if self.certificate.precision == "float32" else [matrix, rounded]

    def evaluate(
        self,
        probs: ArrayLike,
        labels: ArrayLike,
        *,
        sites: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        groups: Groups | None = None,
        alpha: Any = None,
        allow_empty: bool = False,
    ) -> evaluation.Evaluation:
        """Compare the sets with known labels: coverage and size, by site, class and set size, and a verdict.

        With sites it also gives the coverage of the certified mixture, and tests the promise on that; a predictor for
        every site takes the threshold of each. `groups` are
        other columns to give the coverage by, such as {"sex": [...], "age": [...]}; a predictor by group needs its own
        to be among them. Rows of one cluster, such as the
        images of one patient, may depend on each other; without clusters all rows are taken to be independent.
        """
        own, known = needed_of(self.certificate, groups), own_sites(self.certificate, sites)
        sets = self.predict_set(probs, groups=own, sites=known, alpha=alpha, allow_empty=allow_empty)
        return evaluation.evaluate_sets(
            sets,
            labels,
            sites=sites,
            clusters=clusters,
            groups=groups,
            certificate=self.certificate,
            alpha=alpha,
        )

    def content(self) -> dict[str, Any]:
        return {
            "score": self.certificate.score,
            "certificate": self.certificate.to_dict(),
            **fields_of(self.curve, self.site_curves),
        }

    @classmethod
    def of_content(cls, content: dict[str, Any]) -> Predictor:
        held = msgspec.convert(content, _Content, strict=True)
        check_score(held.score, held.certificate, Score)
        groups = held.certificate.groups
        curve = read_curve(held.curve, None if groups is None else [record.group for record in groups])
        own = read_sites(held.certificate, held.sites)
        return cls(certificate=held.certificate, curve=curve, site_curves=own)

    def __repr__(self) -> str:
        about = self.certificate
        score = "scores" if about.score is None else self.score
        sites = f"{about.sites} site{'s' if about.sites > 1 else ''}"
        return (
            f"Predictor({score}, alpha={about.alpha:g}, threshold={about.limit_text}, "
            f"{about.status}: {text.guarantee_name(about.guarantee)} of {sites})"
        )
