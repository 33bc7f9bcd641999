"""From rows to scores to bytes: probabilities and labels, predictions and true numbers."""

from __future__ import annotations

from scripts.vector_cases.tools import Case

PLAIN = [[0.75, 0.125, 0.125], [0.25, 0.5, 0.25], [0.125, 0.25, 0.625], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0, 0.5, 0.5]]
LABELS = [0, 1, 1, 1, 0, 2]
DECIMAL = [[0.1, 0.2, 0.7], [0.3333333, 0.3333333, 0.3333334], [0.6, 0.3, 0.1], [0.05, 0.9, 0.05], [0.4, 0.2, 0.4]]
DECIMAL_LABELS = [2, 1, 1, 0, 2]
TINY = [
    [1e-300, 1.0],
    [1.0, 1e-40],
    [0.9999999, 1e-7],
    [1.0004, 0],
    [0.9996, 0.0],
    [1e-12, 1.0],
    [0.5000000001, 0.4999999999],
]
TINY_LABELS = [0, 1, 1, 0, 1, 0, 1]
MANY = {"count": 60, "classes": 30, "times": 7, "plus": 11, "modulo": 13}
MANY_LABELS = [(11 * i + 3) % 30 for i in range(60)]
ROWS: dict[str, Case] = {
    "dyadic": {"probabilities": PLAIN, "labels": LABELS},
    "decimal": {"probabilities": DECIMAL, "labels": DECIMAL_LABELS},
    "tiny and near the tolerance": {"probabilities": TINY, "labels": TINY_LABELS},
    "many classes, many ties": {"probabilities": MANY, "labels": MANY_LABELS},
}
SCORES: dict[str, Case] = {
    "lac": {"name": "lac"},
    "margin": {"name": "margin"},
    "aps": {"name": "aps"},
    "aps, randomised": {"name": "aps", "randomized": True, "random_state": 5},
    "raps": {"name": "raps"},
    "raps, randomised": {"name": "raps", "randomized": True, "random_state": 7, "penalty": 0.01, "free_ranks": 2},
    "topk": {"name": "topk"},
    "topk, randomised": {"name": "topk", "randomized": True, "random_state": 0},
    "saps": {"name": "saps", "weight": 0.1},
    "saps, randomised": {"name": "saps", "randomized": True, "random_state": 1},
}
PREDICTIONS: dict[str, Case] = {
    "residual": {
        "score": {"name": "residual"},
        "predictions": [1.0, 2.0, 0.1, -3.5, 1e300],
        "y": [1.5, 2.0, 0.3, 7, -1e300],
    },
    "cqr": {
        "score": {"name": "cqr"},
        "predictions": [[1.0, 2.0], [0.1, 0.4], [0.0, 4.0], [5, 5]],
        "y": [2.5, 0.3, 1.0, 4.7],
    },
    "normalized": {
        "score": {"name": "normalized"},
        "predictions": [[1.0, 0.5], [0.1, 0.3], [2.0, 1e-5]],
        "y": [1.5, 0.4, 2.1],
    },
    "signed": {"score": {"name": "signed"}, "predictions": [1.0, 2.0, 0.1, -3.5], "y": [1.5, 0.0, 0.3, -3.5]},
    "signed, scaled": {
        "score": {"name": "signed", "scaled": True, "lower": 0.2},
        "predictions": [[1.0, 0.5], [0.1, 0.3], [2.0, 7.0]],
        "y": [1.5, 0.0, 2.1],
    },
}


def cases() -> list[Case]:
    """List every score on every set of rows, each as a summary, and rows that are refused."""
    made = [
        {"name": f"{score}: {rows}", "input": {**ROWS[rows], "score": about, "kind": "exact", "site": "clinic-a"}}
        for score, about in SCORES.items()
        for rows in ROWS
    ]
    made += [
        {"name": name, "input": {**given, "kind": "exact", "site": "clinic-a"}} for name, given in PREDICTIONS.items()
    ]
    lac = {"score": SCORES["lac"], "alpha": 0.1, "site": "clinic-a"}
    classes = ["benign", "malignant", "other"]
    named = {"probabilities": PLAIN, "classes": classes, "labels": [classes[k] for k in LABELS]}
    largest = {"name": "aps", "randomized": True, "random_state": str(2**63 - 1)}
    made += [
        {"name": "ranks of rows", "input": {**ROWS["many classes, many ties"], **lac}},
        {"name": "named classes", "input": {**named, **lac}},
        {"name": "rows by class", "input": {**named, **lac, "by_class": True}},
        {"name": "rows by group", "input": {**named, **lac, "groups": {"sex": ["F", "M", "F", None, "M", ""]}}},
        {"name": "the largest random state", "input": {"probabilities": PLAIN, "labels": LABELS, "score": largest}},
        {"name": "one class", "input": {"probabilities": [[1.0], [1.0]], "labels": [0, 0], **lac}},
        {"name": "all that a site can say", "input": {**named, **lac, **ABOUT}},
    ]
    return made + [{"name": name, "input": {**lac, **given}} for name, given in REFUSED.items()]


ABOUT: Case = {
    "model": "sha256:0123456789abcdef",
    "temperature": 1.5,
    "calibration": "0f" * 16,
    "alpha": 0.05,
    "expires": "2027-06-30",
    "estimated": True,
}
REFUSED: dict[str, Case] = {
    "a row that sums to 0.99": {"probabilities": [[0.5, 0.5], [0.5, 0.49]], "labels": [0, 0]},
    "a row that sums to 1.0011": {"probabilities": [[0.5, 0.5011]], "labels": [0]},
    "a negative probability": {"probabilities": [[1.0005, -0.0005]], "labels": [0]},
    "NaN": {"probabilities": [["nan", 1.0]], "labels": [1]},
    "an infinite probability": {"probabilities": [["inf", 0.0]], "labels": [1]},
    "a label that is no class": {"probabilities": [[0.5, 0.5]], "labels": [2]},
    "a negative label": {"probabilities": [[0.5, 0.5]], "labels": [-1]},
    "a label in between": {"probabilities": [[0.5, 0.5]], "labels": [0.5]},
    "too few labels": {"probabilities": [[0.5, 0.5], [0.5, 0.5]], "labels": [0]},
    "no rows": {"probabilities": [], "labels": []},
    "an alpha of 0": {"probabilities": [[0.5, 0.5]], "labels": [0], "alpha": 0},
    "a day that is none": {"probabilities": [[0.5, 0.5]], "labels": [0], "expires": "2027-02-30"},
    "two classes of one name": {"probabilities": [[0.5, 0.5]], "labels": [0], "classes": ["a", " a"]},
    "a site without a name": {"probabilities": [[0.5, 0.5]], "labels": [0], "site": " "},
    "a random state of 2^63": {
        "probabilities": [[0.5, 0.5]],
        "labels": [0],
        "score": {"name": "aps", "randomized": True, "random_state": str(2**63)},
    },
    "an infinite number": {"score": {"name": "residual"}, "predictions": [1.0], "y": ["inf"]},
    "a difference that is not finite": {"score": {"name": "residual"}, "predictions": [-1.7e308], "y": [1.7e308]},
    "a scale of 0": {"score": {"name": "normalized"}, "predictions": [[1.0, 0.0]], "y": [1.0]},
    "quantiles that cross": {"score": {"name": "cqr"}, "predictions": [[2.0, 1.0]], "y": [1.0]},
}
