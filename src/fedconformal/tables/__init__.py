"""Tables from files and frames: outputs of a model with class names, ids and truth.

Each step adds to one line that says what was recognised; what could be read in two ways is refused.

>>> from fedconformal.tables import pair, probabilities_of, table_of
>>> probs = table_of({"patient": ["a", "b"], "benign": [0.9, 0.4], "malignant": [0.1, 0.6]}, name="probs")
>>> found = pair(probabilities_of(probs, ids="patient"), table_of(["benign", "malignant"], name="labels"))
>>> found.classes, found.labels.tolist()
(('benign', 'malignant'), [0, 1])
"""

from fedconformal.tables.files import read_table, table_of
from fedconformal.tables.pairing import aligned_column, pair
from fedconformal.tables.predictions import Predictions, columns_that_add_up, numbers_of, probabilities_of
from fedconformal.tables.table import Table

__all__ = [
    "Predictions",
    "Table",
    "aligned_column",
    "columns_that_add_up",
    "numbers_of",
    "pair",
    "probabilities_of",
    "read_table",
    "table_of",
]
