"""Reports: one self-contained HTML page that opens from disk."""

from fedconformal.report.content import CheckedRows
from fedconformal.report.document import report_page
from fedconformal.report.watch import combined_page, watch_page

__all__ = ["CheckedRows", "combined_page", "report_page", "watch_page"]
