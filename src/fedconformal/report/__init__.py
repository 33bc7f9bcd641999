"""Reports: one self-contained HTML page that opens from disk."""

from fedconformal.report.intervals import NumberRows, interval_page
from fedconformal.report.risk import risk_page
from fedconformal.report.rows import LabelledRows
from fedconformal.report.sets import report_page
from fedconformal.report.watch import combined_page, watch_page

__all__ = ["LabelledRows", "NumberRows", "combined_page", "interval_page", "report_page", "risk_page", "watch_page"]
