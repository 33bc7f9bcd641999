"""Summaries of calibration scores: small messages that bound the number of scores at or below any value."""

from fedconformal.summaries.batch import SummaryBatch as SummaryBatch
from fedconformal.summaries.batch import pool as pool
from fedconformal.summaries.losses import LossSummary as LossSummary
from fedconformal.summaries.provenance import Provenance as Provenance
from fedconformal.summaries.rows import summarize as summarize
from fedconformal.summaries.strata import StratifiedSummary as StratifiedSummary
from fedconformal.summaries.summary import Summary as Summary
