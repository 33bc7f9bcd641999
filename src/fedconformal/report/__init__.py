"""One self-contained HTML page that opens from disk."""

from fedconformal.report.page import report_page

__all__ = ["report_page"]
