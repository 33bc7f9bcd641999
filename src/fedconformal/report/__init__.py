"""Reports: one self-contained HTML page that opens from disk."""

from fedconformal.report.content import CheckedRows
from fedconformal.report.document import report_page
from fedconformal.report.study import Study, read_study
from fedconformal.report.watch import combined_page, watch_page

__all__ = ["CheckedRows", "Study", "combined_page", "read_study", "report_page", "watch_page"]
