"""One self-contained HTML page that opens from disk."""

from fedconformal.report.page import report_page
from fedconformal.report.rows import Rows

__all__ = ["Rows", "report_page"]
