"""Summaries of calibration scores: small messages that bound the number of scores at or below any value."""

from fedconformal.summaries.batch import SummaryBatch, pool
from fedconformal.summaries.losses import LossSummary
from fedconformal.summaries.provenance import Provenance
from fedconformal.summaries.rows import summarize
from fedconformal.summaries.strata import StratifiedSummary
from fedconformal.summaries.summary import Summary

__all__ = [
    "LossSummary",
    "Provenance",
    "StratifiedSummary",
    "Summary",
    "SummaryBatch",
    "pool",
    "summarize",
]
