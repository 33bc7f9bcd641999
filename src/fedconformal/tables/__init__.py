"""Tables from files and data frames: model outputs with class names, ids and truth.

Each step records the recognised layout in one line of text; ambiguous input is refused.

>>> from fedconformal.tables import pair, probabilities_of, table_of
>>> probs = table_of({"patient": ["a", "b"], "benign": [0.9, 0.4], "malignant": [0.1, 0.6]}, name="probs")
>>> rows = pair(probabilities_of(probs, ids="patient"), table_of(["benign", "malignant"], name="labels"))
>>> rows.classes, rows.labels.tolist()
(('benign', 'malignant'), [0, 1])
"""

from fedconformal.tables.files import read_table, table_of
from fedconformal.tables.join import aligned_column, pair
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
