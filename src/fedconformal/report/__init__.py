"""One self-contained HTML page that opens from disk."""

from fedconformal.report.page import report_page
from fedconformal.report.risk import risk_page
from fedconformal.report.rows import LabelledRows

__all__ = ["LabelledRows", "Rows", "report_page", "risk_page"]

Rows = LabelledRows
"""The name in earlier releases."""
