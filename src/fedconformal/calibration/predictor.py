"""Predictors: certified thresholds applied to the outputs of a model."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base import registry
from fedconformal._base.arrays import ALPHA_UNIT, Booleans, Floats, Probabilities, as_alpha, as_array, shares_of
from fedconformal._base.classes import format_sets, in_order
from fedconformal._base.files import read_bytes, write_bytes
from fedconformal._base.groups import Groups
from fedconformal._base.names import abbreviate
from fedconformal.calibration.membership import needed_groups, own_sites, rows_by_group, rows_by_site
from fedconformal.calibration.risk import RiskCurve, as_limit
from fedconformal.calibration.search import PromiseCurve
from fedconformal.certificates import text
from fedconformal.certificates.certificate import Certificate, RiskRecord
from fedconformal.errors import AlteredError, InfeasibleWarning, InputError, prefix_errors
from fedconformal.evaluation import evaluate_intervals, evaluate_sets
from fedconformal.evaluation.claims import shares_by_site
from fedconformal.evaluation.losses import evaluate_losses
from fedconformal.losses.loss import Loss, described_loss
from fedconformal.scores import AnyScore, RegressionScore, Score

KIND = "fedconformal predictor"
FORMAT = 1
AnyCurve = PromiseCurve | RiskCurve
Part = str | None
"""A site or a group by its name; None for all rows."""


class CurveFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An encoded curve: thresholds, and levels in units of 1e-15."""

    thresholds: list[float]
    promised: list[Annotated[int, msgspec.Meta(ge=0)]]

    def curve(self, *, losses: bool) -> AnyCurve:
        """Validate the fields and return the curve."""
        thresholds = np.array(self.thresholds, dtype=np.float64)
        if losses:
            return RiskCurve(thresholds, tuple(self.promised))
        if max(self.promised, default=0) >= ALPHA_UNIT:
            raise InputError("the predictor is malformed: the promised coverage is not below 1")
        return PromiseCurve(thresholds, np.array(self.promised, dtype=np.int64))


class PredictorFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of a file, except its SHA-256."""

    kind: str
    format: int
    certificate: Certificate
    curves: list[CurveFields | None]


@dataclass(frozen=True, eq=False, kw_only=True)
class Predictor:
    """Prediction sets, intervals or decisions from the outputs of a model, with a certificate.

    `calibrate` returns it and `load` reads it. The score of the summaries determines the output: label sets from
    probabilities (`predict_set`, `predict_p`), intervals from predictions (`predict_interval`), or, for losses,
    decisions from scores (`predict`).

    Parameters
    ----------
    certificate
        The promises.
    make_curves
        Function that computes the promise curves lazily; the curve of a class without scores is None.

    Examples
    --------
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

    certificate: Certificate
    make_curves: Callable[[], Sequence[AnyCurve | None]] = field(repr=False)

    @cached_property
    def curves(self) -> Sequence[AnyCurve | None]:
        """Promise curves, in the order of the promises of the certificate."""
        return tuple(self.make_curves())

    @property
    def curve(self) -> Any:
        """Promise curve for all rows; None if there is one per class, group or end."""
        return self.curves[0] if len(self.certificate.whole) == 1 else None

    @cached_property
    def score(self) -> Any:
        """Score of the summaries."""
        if self.certificate.score is None:
            raise InputError("the summaries do not name their score; summarise with score=", param="score")
        return registry.rebuild(self.certificate.score, AnyScore)

    @property
    def threshold(self) -> float:
        """Largest certified threshold, which is valid for any row; for two ends, the upper one."""
        return self.certificate.threshold

    @property
    def thresholds(self) -> dict[str, Any]:
        """Certified thresholds by name of the site, class, group or end; empty if there is a single threshold."""
        return self.certificate.thresholds

    def threshold_at(self, alpha: Any = None, *, site: str | None = None) -> Any:
        """Return the threshold at another alpha or, for losses, another limit; by default the certified one.

        It is an array for classes or groups, and a pair for two ends; for a promise to every site, the threshold of
        `site`, or the largest. It is infinite, with a warning, if nothing is promised at this alpha. An alpha must be
        fixed beforehand: choosing it after seeing predictions voids the promise.
        """
        part = None if site is None else next(iter(rows_by_site(self.certificate, site, 1)))
        if part is None and self.certificate.by == "group":
            return np.array(list(self._limits(alpha, self._parts).values()))
        limit = self._limits(alpha, [part])[part]
        if limit.ndim and self.certificate.lower_share is not None:
            return tuple(limit.tolist())
        return limit if limit.ndim else float(limit)

    def sentence(self) -> str:
        """Return the promise in one sentence."""
        return text.sentence(self.certificate)

    @cached_property
    def _certified(self) -> Fraction:
        return self._level(self.risk.limit if self.certificate.risk else self.certificate.alpha)

    def _level(self, alpha: Any) -> Fraction:
        if alpha is None:
            return self._certified
        return as_limit(alpha, self.risk.bound, self.loss) if self.certificate.risk else as_alpha(alpha)

    @cached_property
    def _parts(self) -> dict[Part, list[int]]:
        """Positions of the promises for all rows, and for each site or group."""
        parts: dict[Part, list[int]] = {}
        for place, promise in enumerate(self.certificate.promises):
            parts.setdefault(promise.group if promise.site is None else promise.site, []).append(place)
        return parts

    def _limits(self, alpha: Any, parts: Sequence[Part] | Mapping[Part, Any]) -> dict[Part, Floats]:
        """Return the threshold of each part, as an array for several classes or ends; warn if any is infinite."""
        level, promises = self._level(alpha), self.certificate.promises
        certified, found, lacking = level == self._certified, dict[Part, Floats](), dict[Part, Floats]()
        for part in parts:
            places = self._parts[part]
            limits = [promises[i].limit if certified else self._limit(i, level) for i in places]
            several = promises[places[0]].stratum[2:] != (None, None)
            found[part] = np.array(limits if several else limits[0])
            if any(map(math.isinf, limits)):
                lacking[part] = found[part]
        if lacking:
            warnings.warn(self._explain(level, lacking), InfeasibleWarning, stacklevel=3)
        return found

    def _limit(self, place: int, level: Fraction) -> float:
        """Return the threshold of one promise at alpha; for a lower end, minus the threshold of the negated scores."""
        curve, end, share = self.curves[place], self.certificate.promises[place].end, self.certificate.lower_share
        if curve is None:
            return math.inf
        if end is None or share is None:
            return curve.threshold(level)
        lower, upper = shares_of(level, share)
        return 0.0 - curve.threshold(lower) if end == "lower" else curve.threshold(upper)

    def _explain(self, level: Fraction, lacking: Mapping[Part, Floats]) -> str:
        """Explain infinite thresholds of parts, classes or ends."""
        about, named = self.certificate, [(part, None) for part in lacking if part is not None]
        if about.risk is not None:
            return text.no_threshold(level, f"the best one promises {float(self.curve.least):.6g}", about.risk.safe)
        if named:
            ends = text.missing_ends(np.atleast_1d(next(iter(lacking.values()))).tolist()) if about.intervals else None
            return text.not_promised_to(level, named, so=ends)
        return text.explain_uninformative(about, lacking[None], alpha=level) or text.SETS.uninformative

    def predict_set(
        self,
        probs: ArrayLike,
        *,
        groups: Groups | None = None,
        sites: ArrayLike | None = None,
        alpha: Any = None,
        allow_empty: bool = False,
        output: Literal["array", "labels", "frame"] = "array",
    ) -> Any:
        """Return the prediction set of every row.

        Parameters
        ----------
        probs
            Probabilities of the classes, (n, J) or a table with a column for each class.
        groups
            Groups of the rows, such as {"sex": [...], "age": [...]}; required by a predictor by group.
        sites
            Site of each row, or one name for all, for a predictor for every site; by default the largest threshold.
        alpha
            Another level than the certified one, fixed beforehand: choosing it after seeing sets voids the promise.
        allow_empty
            Whether sets may be empty; by default they contain at least the most probable label.
        output
            "array" for (n, J) booleans, "labels" for lists of class names, "frame" for a pandas frame.
        """
        matrix = self._as_scored(probs)
        members = self._members(groups, sites, len(matrix))
        sets: Booleans = np.zeros(() if None in members else matrix.shape, dtype=np.bool_)
        for part, limit in self._limits(alpha, members).items():  # a row takes the largest threshold of its groups
            if limit.ndim:  # classes without calibration rows are in every set
                limit = np.append(limit, np.full(max(0, matrix.shape[1] - len(limit)), math.inf))  # noqa: PLW2901
            answer = self.score.predict_set if limit.ndim else self.score.sets_of  # which validates only the rows
            own = answer(matrix[members[part]], limit, allow_empty=allow_empty)
            if part is None:
                sets = own
            else:
                sets[members[part]] |= own
        return format_sets(sets, self.certificate.class_names, output, probs)

    def predict_p(self, probs: ArrayLike, *, groups: Groups | None = None, sites: ArrayLike | None = None) -> Floats:
        """Return (n, J) p-values, the largest over a row's groups; {p > alpha} is the set with `allow_empty`."""
        scores: Floats = self.score.evaluate_all(self._as_scored(probs))
        p_values = np.zeros_like(scores)
        for part, mine in self._members(groups, sites, len(scores)).items():
            places, p = self._parts[part], np.ones_like(scores[mine])
            by_class = self.certificate.promises[places[0]].class_index is not None
            if by_class and len(places) > p.shape[1]:
                problem = f"have {p.shape[1]} classes, the predictor has thresholds for {len(places)}"
                raise InputError(problem, where="probabilities")
            for label, place in enumerate(places):
                curve: Any = self.curves[place]
                columns = [label] if by_class else slice(None)
                if curve is not None:
                    p[:, columns] = curve.p_values(scores[mine][:, columns])
            p_values[mine] = np.maximum(p_values[mine], p)
        return p_values

    def _members(self, groups: Groups | None, sites: ArrayLike | None, rows: int) -> Mapping[Any, Any]:
        """Return the rows of each part; without groups or sites, all rows are in the part None."""
        if self.certificate.by == "group":
            return rows_by_group(self.certificate, groups, rows)
        if groups is not None:
            raise InputError("the predictor was not calibrated by group; leave them out", where="groups")
        return {None: slice(None)} if sites is None else rows_by_site(self.certificate, sites, rows)

    def _as_scored(self, probs: ArrayLike) -> Probabilities:
        """Return the probabilities in the order of the classes, rounded as at calibration."""
        if not isinstance(self.score, Score):
            raise InputError(f"{self.score.name} scores numbers; use predict_interval")
        matrix = in_order(probs, self.certificate.class_names)
        precision = self.certificate.provenance.precision
        if precision is None and matrix.dtype == np.float32:
            advice = "score rows with summarize, or state precision='float32'; otherwise give float64"
            raise InputError(f"are float32, and the summaries do not state that; {advice}", where="probabilities")
        with np.errstate(over="ignore"):  # numbers too large for float32 are refused as probabilities
            return matrix.astype(precision or matrix.dtype, copy=False)

    def predict_interval(self, predictions: ArrayLike, *, sites: ArrayLike | None = None, alpha: Any = None) -> Floats:
        """Return the (n, 2) ends of prediction intervals; `sites` and `alpha` are as in `predict_set`.

        >>> from fedconformal import calibrate, summarize
        >>> site = summarize([1.0] * 9, [1.25] * 8 + [3.0], score="residual", site="a")
        >>> calibrate([site], alpha=0.2).predict_interval([2.0, 5.0])
        array([[1.75, 2.25],
               [4.75, 5.25]])
        """
        array = as_array(predictions, "predictions")
        members = self._members(None, sites, len(array) if array.ndim else 1)
        limits = self._limits(alpha, members)
        if sites is None:
            return self._ends(array, limits[None])
        ends = np.empty((len(array), 2))
        for part, mine in members.items():
            ends[mine] = self._ends(array[mine], limits[part])
        return ends

    def _ends(self, predictions: Any, limit: Floats) -> Floats:
        """Return interval ends, widened by one step if predictions have a lower precision than at calibration."""
        if not isinstance(self.score, RegressionScore):
            raise InputError(f"{self.score.name} scores labels; use predict_set")
        upper, lower = (float(limit[1]), float(limit[0])) if limit.ndim else (float(limit), None)
        scored = np.dtype(self.certificate.provenance.precision or "f8")
        with np.errstate(over="ignore"):  # a number too large for float32 is refused as not finite
            rounded = predictions.astype(np.float32) if scored == np.float32 else predictions
            ends: Floats = self.score.interval(rounded, upper, lower)
        if predictions.dtype.kind == "f" and predictions.dtype.itemsize < scored.itemsize:
            steps = np.spacing(np.abs(predictions)).astype(np.float64).reshape(len(ends), -1).sum(axis=1)
            for end, (threshold, sign) in enumerate([(upper if lower is None else lower, -1.0), (upper, 1.0)]):
                ends[:, end] += sign * steps * max(1.0, abs(threshold))
        return ends

    @property
    def risk(self) -> RiskRecord:
        """Limit, bound, grid and loss of a promise on losses."""
        if self.certificate.risk is None:
            raise InputError("the predictor promises coverage, not a limit on losses")
        return self.certificate.risk

    @property
    def loss(self) -> Loss | None:
        """The controlled loss, if it is registered in fedconformal.losses."""
        return described_loss(self.risk.loss)

    def predict(self, scores: Any, *, risk: Any = None) -> Any:
        """Return the decisions of a loss at the threshold: booleans of the shape of the scores.

        At +inf they are the safe action: all labels for the false negative rate, none for the selective error.
        """
        return self._known_loss().predict(scores, self.threshold_at(risk))

    def _known_loss(self) -> Loss:
        if (loss := self.loss) is None:
            raise InputError("the certificate does not name its loss; use its threshold with your own loss")
        return loss

    def evaluate(
        self,
        outputs: ArrayLike,
        truth: ArrayLike | None = None,
        *,
        sites: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        groups: Groups | None = None,
        alpha: Any = None,
        allow_empty: bool = False,
    ) -> Any:
        """Evaluate predictions on test rows: coverage and size by site, class, group and set size, and a verdict.

        Parameters
        ----------
        outputs
            Probabilities, predictions, or scores of a loss; or losses, at every threshold or at the threshold only.
        truth
            Labels, numbers, or the truth of a loss; None for losses.
        sites
            Site of each row, for the coverage of the certified mixture and thresholds by site.
        clusters
            Cluster of each row, such as the patient; by default rows are treated as independent.
        groups
            Columns for the coverage by group, such as {"sex": [...]}; a predictor by group requires its own columns.
        alpha
            Miscoverage level or limit on losses, by default the certified one.
        allow_empty
            Whether sets may be empty.

        Returns
        -------
        Evaluation, IntervalEvaluation or LossEvaluation
        """
        certificate = self.certificate
        if certificate.risk is not None:
            return self._evaluate_losses(outputs, truth, sites, alpha)
        if truth is None:
            raise InputError("truth: give the true label or number of every row", param="truth")
        own = own_sites(certificate, sites)
        about = {"certificate": certificate, "sites": sites, "clusters": clusters, "groups": groups, "alpha": alpha}
        if certificate.intervals:
            return evaluate_intervals(self.predict_interval(outputs, sites=own, alpha=alpha), truth, **about)
        needed = needed_groups(certificate, groups)
        sets = self.predict_set(outputs, groups=needed, sites=own, alpha=alpha, allow_empty=allow_empty)
        return evaluate_sets(sets, truth, **about)

    def _evaluate_losses(self, outputs: Any, truth: Any, sites: ArrayLike | None, risk: Any) -> Any:
        """Evaluate scores with their truth at the threshold; without truth, losses."""
        (curve,), about, at = self.curves, self.risk, self._limit(0, self._level(risk))
        if truth is not None and at < math.inf:
            losses = self._known_loss().evaluate(outputs, truth, thresholds=[at])[:, 0]
        else:
            losses = as_array(outputs, "losses")
            if at == math.inf and (truth is not None or losses.ndim == 2):
                raise InputError("no threshold keeps the limit, so only the safe action is left; give its losses")
            if losses.ndim == 2 and curve is not None:
                if losses.shape[1] != len(curve.thresholds):
                    raise InputError(f"have {losses.shape[1]} columns for {about.points} thresholds", where="losses")
                losses = losses[:, np.searchsorted(curve.thresholds, at)]
        return evaluate_losses(losses, bound=about.bound, sites=sites, shares=shares_by_site(self.certificate))

    def content(self) -> Any:
        """Return the fields of the file, except its SHA-256, as JSON values."""
        curves = [
            None if curve is None else CurveFields(curve.thresholds.tolist(), list(map(int, curve.promised)))
            for curve in self.curves
        ]
        return msgspec.to_builtins(PredictorFields(KIND, FORMAT, self.certificate, curves))

    def digest(self) -> str:
        """Return the SHA-256 of the content, the identifier of the predictor."""
        return _digest(self.content())

    def to_bytes(self) -> bytes:
        """Encode as JSON, with the SHA-256 of the content."""
        content = self.content()
        # The indentation of json is pure Python and takes twice as long.
        compact = json.dumps({**content, "sha256": _digest(content)}, allow_nan=False, ensure_ascii=False).encode()
        return msgspec.json.format(compact, indent=1) + b"\n"

    def save(self, path: str | Path) -> None:
        """Write to a JSON file."""
        write_bytes(Path(path), self.to_bytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> Predictor:
        """Decode untrusted JSON; malformed or altered content is refused."""
        try:
            content = json.loads(data)
            if not isinstance(content, dict) or content.get("kind") != KIND:
                raise InputError("it is JSON of another kind")
            stated = content.pop("sha256", None)
            digest = _digest(content)  # NaN is refused
            json.dumps(content, ensure_ascii=False).encode()  # lone surrogates cannot be encoded
        except (ValueError, TypeError, RecursionError) as error:
            raise InputError(f"not a fedconformal predictor: {abbreviate(str(error))}") from None
        if content.get("format") != FORMAT:
            raise InputError(f"the predictor is of format {abbreviate(content.get('format'))}, expected {FORMAT}")
        if stated != digest:
            raise AlteredError("the predictor was altered after it was made (its SHA-256 does not match)")
        try:
            held = msgspec.convert(content, PredictorFields, strict=True)
        except msgspec.ValidationError as error:
            raise InputError(f"the predictor is malformed: {error}") from None
        losses = held.certificate.risk is not None
        curves = [None if fields is None else fields.curve(losses=losses) for fields in held.curves]
        predictor = cls(certificate=held.certificate, make_curves=partial(tuple, curves))
        predictor._check()
        return predictor

    def _check(self) -> None:
        """Check the consistency of promises, curves, guarantee and score."""
        about, level = self.certificate, self._certified
        about.check_strata()
        if len(self.curves) != len(about.promises):
            raise InputError("the predictor is malformed: it has not one promise curve for each promise")
        for place, one in enumerate(about.promises):
            if (self.curves[place] is None) != (one.scores == 0 and one.class_index is not None):
                raise InputError("the predictor is malformed: a promise with scores has no curve, or one without has")
            if self._limit(place, level) != one.limit:
                raise InputError("the promise curve and the certificate give different thresholds")

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Predictor, certificate=self.certificate, make_curves=partial(tuple, self.curves)), ()

    def __repr__(self) -> str:
        about, sites = self.certificate, f"{self.certificate.sites} site{'s' if self.certificate.sites > 1 else ''}"
        level = f"alpha={about.alpha:g}" if about.risk is None else f"risk={about.risk.limit:g}"
        score = f"{self.score}, " if about.score else ""
        kept = f"{about.status}: {text.guarantee_name(about.guarantee)} of {sites}"
        return f"Predictor({score}{level}, threshold={about.limit_text}, {kept})"


def check_coverage(predictor: Predictor) -> Predictor:
    """Refuse a predictor that limits losses, if sets or intervals are expected."""
    if predictor.certificate.risk is not None:
        raise InputError("is a predictor that limits losses; expected one of sets or intervals")
    return predictor


def load(path: str | Path) -> Predictor:
    """Read a predictor from a JSON file; malformed or altered files are refused.

    Parameters
    ----------
    path
        File of `Predictor.save` or of `fedconformal calibrate`.

    Returns
    -------
    Predictor

    Examples
    --------
    >>> import fedconformal as fc, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "predictor.json")
    >>> fc.calibrate([fc.Summary.of_scores([0.1, 0.2, 0.3, 0.4], site="a")], alpha=0.25).save(path)
    >>> fc.load(path).threshold
    0.5
    """
    with prefix_errors(path):
        return Predictor.from_bytes(read_bytes(Path(path)))


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()
