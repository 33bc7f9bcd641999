"""From a request to an answer, without any network."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Booleans, Floats, Probabilities, softmax
from fedconformal._base.classes import as_class_indices, in_order, match_columns
from fedconformal.calibration.curve import PromiseCurve
from fedconformal.calibration.membership import needed_groups, own_sites
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.uninformative import explain_uninformative
from fedconformal.errors import InputError
from fedconformal.monitoring.events import Outcomes, Predicted
from fedconformal.serving.bodies import Answer, LabelledIds, Rows, new_ids
from fedconformal.serving.onnx import PREFIX, OnnxModel
from fedconformal.summaries.format import MAX_CLASSES
from fedconformal.summaries.provenance import has_expired, number_of


class Service:
    """A predictor, with the model that it was calibrated for, if that is an ONNX model.

    >>> from fedconformal import LAC, Summary, calibrate
    >>> from fedconformal.serving.bodies import read_rows
    >>> site = Summary.of_scores(LAC().evaluate([[0.75, 0.25]] * 9, [0] * 8 + [1]), score=LAC(), classes=["no", "yes"])
    >>> service = Service(calibrate([site], alpha=0.2, exact=True))
    >>> answer = service.answer(read_rows(b'{"probabilities": [[0.8, 0.2]], "ids": ["scan-7"]}'))
    >>> answer.ids, answer.sets.tolist(), answer.p_values.tolist()
    (['scan-7'], [[True, False]], [[1.0, 0.1]])
    """

    def __init__(self, predictor: Predictor, model: OnnxModel | None = None) -> None:
        about = predictor.certificate
        if model is not None:
            model.check_for(about.provenance.model)
        elif (about.provenance.model or "").startswith(PREFIX):
            raise InputError("the predictor was calibrated for an ONNX model; give that model too", param="onnx")
        self.predictor, self.model, self.certificate = predictor, model, about
        classes = None if about.class_names is None else number_of(about.class_names)
        if model is not None and None not in (classes, model.classes) and classes != model.classes:
            raise InputError(f"{model.path}: has {model.classes} classes, the predictor has {classes}")
        if model is not None and model.gives == "probs" and about.provenance.temperature not in (None, 1.0):
            raise InputError(f"{model.path}: gives probabilities, the predictor was calibrated on logits")
        self.digest: str = json.loads(predictor.to_bytes())["sha256"]
        curve = predictor.curve
        plain = about.provenance.precision == "float32" and about.by is None
        self._curve: PromiseCurve | None = curve if plain else None
        self._why = explain_uninformative(about)
        self._about = {"predictor": self.digest, "status": about.status, "alpha": about.alpha}
        self._about["sentence"] = about.sentence()

    def answer(self, rows: Rows) -> Answer:
        """Make the sets and p-values of rows; the same as in Python."""
        return self.answers([rows])[0]

    def answers(self, requests: Sequence[Rows]) -> list[Answer]:
        """Answer several requests at a time, which is faster, and changes no answer."""
        scores, sets, p_values = self._sets(self._together(requests), requests)
        width, sizes = sets.shape[1], sets.sum(axis=1)
        named, warnings = self.certificate.class_names, self.warnings()
        classes = named if isinstance(named, list) else list(range(width))
        found, start = [], 0
        for rows in requests:
            count = len(rows.matrix)
            some = slice(start, start + count)
            full = int(np.count_nonzero(sizes[some] == width)) if width > 1 else 0
            ids, about = rows.ids or new_ids(count), {**self._about, "warnings": warnings, "full_sets": full}
            held: dict[str, Any] = {"sets": sets[some], "p_values": p_values[some], "scores": scores[some]}
            found.append(Answer(ids=ids, classes=classes, about=about, **held))
            start += count
        return found

    def _together(self, requests: Sequence[Rows]) -> Probabilities:
        """Return the probabilities of all rows; a model runs once if it can."""
        first, *others = requests
        alike = all(one.form == "features" and one.matrix.shape[1:] == first.matrix.shape[1:] for one in requests)
        if others and alike and self.model is not None and all(one.columns is None for one in requests):
            matrix = np.concatenate([one.matrix for one in requests])
            probs = self.model.probabilities(matrix, temperature=self.certificate.provenance.temperature)
            return in_order(probs, self.certificate.class_names)
        found = [in_order(self.probabilities(one), self.certificate.class_names) for one in requests]
        return np.concatenate(found) if others else found[0]

    def _sets(self, probs: Probabilities, requests: Sequence[Rows]) -> tuple[Floats, Booleans, Floats]:
        """Return scores, sets and p-values, those of `predict_set` and `predict_p`.

        A request is often one row, and then most of its time goes into checks and calls, not into arithmetic. So rows
        are scored once, where there is one threshold.
        """
        with np.errstate(over="ignore"):
            rounded = probs.astype(np.float32)
        scores = self.predictor.score.evaluate_all(rounded)
        if self._curve is None:
            return scores, *self._by_part(probs, requests)
        sets = scores <= self.certificate.limit
        sets[np.arange(len(sets)), rounded.argmax(axis=1)] = True
        return scores, sets, self._curve.p_values(scores)

    def _by_part(self, probs: Probabilities, requests: Sequence[Rows]) -> tuple[Booleans, Floats]:
        """Return sets and p-values where thresholds go by class, group or site; of each request by its own."""
        sets, p_values, rest = [], [], probs
        for rows in requests:
            some, rest = rest[: len(rows.matrix)], rest[len(rows.matrix) :]
            about: dict[str, Any] = {"groups": needed_groups(self.certificate, rows.groups)}
            about["sites"] = own_sites(self.certificate, rows.site)
            sets.append(self.predictor.predict_set(some, **about))
            p_values.append(self.predictor.predict_p(some, **about))
        return np.concatenate(sets), np.concatenate(p_values)

    def warnings(self) -> list[str]:
        """Say what is to be known of every answer: sets that hold every label, a certificate that has expired."""
        found = [] if self._why is None else [self._why]
        if has_expired(self.certificate.provenance.expires):
            found.append(
                f"the certificate expired on {self.certificate.provenance.expires}; calibrate anew, from new summaries"
            )
        return found

    def probabilities(self, rows: Rows) -> Probabilities:
        """Return the probabilities of rows as they are scored, with the columns in the order of the classes."""
        form = rows.form
        if (form == "features") != (self.model is not None):
            raise InputError(_other_form(form))
        given: NDArray[Any] = rows.matrix
        if rows.columns is not None:
            given = given[:, self._order(rows.columns, given.shape[1], form)]
        at = self.certificate.provenance.temperature
        if self.model is not None:
            return self.model.probabilities(given, temperature=at)
        return softmax(given, temperature=1.0 if at is None else at) if form == "logits" else given

    def _order(self, columns: Sequence[str], width: int, form: str) -> list[int]:
        classes = self.certificate.class_names
        if form == "features" or not isinstance(classes, list):
            what = "features are taken in the order of the model" if form == "features" else "the classes have no names"
            raise InputError(f"columns: {what}; leave them out")
        if len(columns) != width:
            raise InputError(f"columns: there are {len(columns)} names, and rows of {width} numbers")
        return match_columns(columns, classes)[0]

    def predicted(self, requests: Sequence[Rows], answers: Sequence[Answer]) -> Predicted | None:
        """Return the part of answers that a watch stores; a group column that a request lacks is empty there."""
        if not requests:
            return None
        columns = {name for rows in requests for name in rows.groups or ()}
        groups = {
            name: [value for rows in requests for value in (rows.groups or {}).get(name, [None] * len(rows))]
            for name in columns
        }
        scores = np.concatenate([answer.scores for answer in answers])
        ids = [name for answer in answers for name in answer.ids]
        sites = [rows.site for rows in requests for _ in range(len(rows))]
        about = map(repr, zip(sites, *(groups[name] for name in sorted(columns)), strict=True))
        digests = [
            hashlib.blake2b(row.tobytes() + text.encode(), digest_size=16).digest()
            for row, text in zip(scores, about, strict=True)
        ]
        return Predicted(
            ids=ids,
            times=np.full(len(ids), time.time()),
            sets=np.concatenate([answer.sets for answer in answers]),
            scores=scores.min(axis=1),
            sites=sites,
            groups=groups,
            digests=digests,
        )

    def outcomes(self, given: LabelledIds) -> Outcomes:
        """Return the outcomes that a watch stores."""
        labels = self.labels(given).astype(np.float64)
        return Outcomes(ids=given.ids, times=np.full(len(labels), time.time()), values=labels)

    def labels(self, outcomes: LabelledIds) -> NDArray[np.int64]:
        """Return the positions of the labels that came true."""
        classes = self.certificate.class_names
        known = MAX_CLASSES if classes is None else classes
        return as_class_indices(outcomes.labels, rows=len(outcomes.ids), classes=known)


def _other_form(form: str) -> str:
    if form == "features":
        return "features: this server has no model; send probabilities or logits"
    return f"{form}: this server has the model itself, to the last bit; send features"
