"""One self-contained HTML page that opens from disk."""

from fedconformal.report.interval_page import NumberRows, interval_page
from fedconformal.report.page import report_page
from fedconformal.report.risk import risk_page
from fedconformal.report.rows import LabelledRows
from fedconformal.report.watch_page import watch_page

__all__ = ["LabelledRows", "NumberRows", "interval_page", "report_page", "risk_page", "watch_page"]
