"""Computation of answers, independent of the network."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np

from fedconformal._base.arrays import Booleans, Floats, Probabilities, softmax
from fedconformal._base.classes import as_class_indices, in_order, match_columns
from fedconformal.calibration.membership import needed_groups, own_sites
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.text import explain_uninformative
from fedconformal.errors import InputError
from fedconformal.monitoring.events import Outcomes, Predicted
from fedconformal.serving.bodies import Answer, LabelledIds, Rows, new_ids
from fedconformal.serving.onnx import PREFIX, OnnxModel
from fedconformal.summaries.format import MAX_CLASSES
from fedconformal.summaries.provenance import has_expired


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A batch of requests with their answers, and the scores and sets of all rows for a watch."""

    requests: Sequence[Rows]
    answers: list[Answer]
    scores: Floats
    sets: Booleans

    def predicted(self) -> Predicted:
        """Return the rows for a watch; missing group columns of a request are empty."""
        columns = sorted({name for rows in self.requests for name in rows.groups or ()})
        groups = {
            name: [value for rows in self.requests for value in (rows.groups or {}).get(name, [None] * len(rows))]
            for name in columns
        }
        sites = [rows.site for rows in self.requests for _ in range(len(rows))]
        about = map(repr, zip(sites, *groups.values(), strict=True))
        ids = [name for answer in self.answers for name in answer.ids]
        return Predicted(
            ids=ids,
            times=np.full(len(ids), time.time()),
            sets=self.sets,
            scores=self.scores.min(axis=1),
            sites=sites,
            groups=groups,
            digests=[
                hashlib.blake2b(row.tobytes() + text.encode(), digest_size=16).digest()
                for row, text in zip(self.scores, about, strict=True)
            ],
        )


class Service:
    """A predictor, with its ONNX model if it was calibrated for one.

    >>> from fedconformal import LAC, Summary, calibrate
    >>> from fedconformal.serving.bodies import read_rows
    >>> site = Summary.of_scores(LAC().evaluate([[0.75, 0.25]] * 9, [0] * 8 + [1]), score=LAC(), classes=["no", "yes"])
    >>> service = Service(calibrate([site], alpha=0.2, exact=True))
    >>> (answer,) = service.answer([read_rows(b'{"probabilities": [[0.8, 0.2]], "ids": ["scan-7"]}')]).answers
    >>> answer.ids, answer.sets, answer.p_values
    (['scan-7'], [['no']], [[1.0, 0.1]])
    """

    def __init__(self, predictor: Predictor, model: OnnxModel | None = None) -> None:
        about = predictor.certificate
        if model is not None:
            model.check_for(about.provenance.model)
        elif (about.provenance.model or "").startswith(PREFIX):
            raise InputError("the predictor was calibrated for an ONNX model; give that model too", param="onnx")
        self.predictor, self.model, self.certificate = predictor, model, about
        self.digest = predictor.digest()
        plain = about.provenance.precision == "float32" and about.by is None
        self._curve = predictor.curve if plain else None
        self._why, self._sentence = explain_uninformative(about), predictor.sentence()

    def answer(self, requests: Sequence[Rows]) -> Batch:
        """Return sets and p-values, equal to `predict_set` and `predict_p` and independent of the batch."""
        scores, sets, p_values = self._predict(self._probabilities(requests), requests)
        about, width, warnings = self.certificate, sets.shape[1], self.warnings()
        classes: list[Any] = about.class_names if isinstance(about.class_names, list) else list(range(width))
        labels = [list(compress(classes, row)) for row in sets.tolist()]
        rates, answers, start = p_values.tolist(), list[Answer](), 0
        for rows in requests:
            some = slice(start, start := start + len(rows))
            answers.append(
                Answer(
                    predictor=self.digest,
                    status=about.status,
                    alpha=about.alpha,
                    sentence=self._sentence,
                    warnings=warnings,
                    full_sets=sum(len(own) == width > 1 for own in labels[some]),
                    classes=classes,
                    ids=rows.ids or new_ids(len(rows)),
                    sets=labels[some],
                    p_values=rates[some],
                )
            )
        return Batch(requests=requests, answers=answers, scores=scores, sets=sets)

    def _probabilities(self, requests: Sequence[Rows]) -> Probabilities:
        """Return the probabilities of all rows, with a single run of the model."""
        matrices = [self._given(rows) for rows in requests]
        if any(m.shape[1] != matrices[0].shape[1] for m in matrices):
            raise InputError("the requests have rows of different lengths")
        matrix: Probabilities = np.concatenate(matrices) if matrices[1:] else matrices[0]
        if self.model is not None:
            matrix = self.model.probabilities(matrix, temperature=self.certificate.provenance.temperature)
        return in_order(matrix, self.certificate.class_names)

    def _given(self, rows: Rows) -> Floats:
        """Return features, or probabilities with the columns in the order of the classes."""
        x, form, at = rows.matrix, rows.form, self.certificate.provenance.temperature
        if form == "features" and self.model is None:
            raise InputError("features: this server has no model; send probabilities or logits")
        if form != "features" and self.model is not None:
            raise InputError(f"{form}: this server runs the model itself; send features")
        if rows.columns is not None:
            x = x[:, self._order(rows.columns, x.shape[1])]
        return softmax(x, temperature=1.0 if at is None else at) if form == "logits" else x

    def _order(self, columns: Sequence[str], width: int) -> list[int]:
        classes = self.certificate.class_names
        if self.model is not None or not isinstance(classes, list):
            what = "the classes have no names" if self.model is None else "features are taken in the order of the model"
            raise InputError(f"columns: {what}; leave them out")
        if len(columns) != width:
            raise InputError(f"columns: there are {len(columns)} names, and rows of {width} numbers")
        return match_columns(columns, classes)[0]

    def _predict(self, probs: Probabilities, requests: Sequence[Rows]) -> tuple[Floats, Booleans, Floats]:
        """Return scores, sets and p-values; with a single threshold, rows are scored once."""
        with np.errstate(over="ignore"):
            rounded = probs.astype(np.float32)
        scores = self.predictor.score.evaluate_all(rounded)
        if self._curve is not None:
            sets = scores <= self.certificate.limit
            sets[np.arange(len(sets)), rounded.argmax(axis=1)] = True
            return scores, sets, self._curve.p_values(scores)
        parts, start = [], 0
        for rows in requests:  # each has its own site
            some = probs[start : (start := start + len(rows))]
            groups, site = needed_groups(self.certificate, rows.groups), own_sites(self.certificate, rows.site)
            sets = self.predictor.predict_set(some, groups=groups, sites=site)
            parts.append((sets, self.predictor.predict_p(some, groups=groups, sites=site)))
        return scores, np.concatenate([sets for sets, _ in parts]), np.concatenate([rates for _, rates in parts])

    def warnings(self) -> list[str]:
        """Return the warnings of every answer: full sets, an expired certificate."""
        messages = [] if self._why is None else [self._why]
        expires = self.certificate.provenance.expires
        if has_expired(expires):
            messages.append(f"the certificate expired on {expires}; calibrate again from new summaries")
        return messages

    def outcomes(self, labelled: LabelledIds) -> Outcomes:
        """Return the outcomes for a watch, as class indices."""
        classes = self.certificate.class_names
        known = MAX_CLASSES if classes is None else classes
        labels = as_class_indices(labelled.labels, rows=len(labelled.ids), classes=known).astype(np.float64)
        return Outcomes(ids=labelled.ids, times=np.full(len(labels), time.time()), values=labels)
