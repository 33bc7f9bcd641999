"""Tables as they come: from files and frames to probabilities with class names, ids and labels.

Read a table, find its classes, pair it with its labels. Nothing is guessed in silence: each step adds to one line that
says what was recognised, and what could be read in two ways is refused.

>>> from fedconformal.tables import pair, probabilities_of, table_of
>>> probs = table_of({"patient": ["a", "b"], "benign": [0.9, 0.4], "malignant": [0.1, 0.6]}, name="probs")
>>> found = pair(probabilities_of(probs, ids="patient"), table_of(["benign", "malignant"], name="labels"))
>>> found.classes, found.labels.tolist()
(('benign', 'malignant'), [0, 1])
"""

from fedconformal.tables.classes import match_columns
from fedconformal.tables.files import read_table
from fedconformal.tables.frames import table_of
from fedconformal.tables.numbers import numbers_of, pair_numbers
from fedconformal.tables.pairing import beside, pair
from fedconformal.tables.predictions import Predictions, probabilities_of
from fedconformal.tables.table import Table

__all__ = [
    "Predictions",
    "Table",
    "beside",
    "match_columns",
    "numbers_of",
    "pair",
    "pair_numbers",
    "probabilities_of",
    "read_table",
    "table_of",
]
