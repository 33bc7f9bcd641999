"""Reports: one self-contained HTML page that opens from disk."""

from fedconformal.report.document import Study, read_study, report_page
from fedconformal.report.watch import combined_page, watch_page

__all__ = ["Study", "combined_page", "read_study", "report_page", "watch_page"]
