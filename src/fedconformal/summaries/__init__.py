"""What a site says of its scores: a small message that bounds how many are at or below any number."""

from fedconformal.summaries.by_class import ClassSummary
from fedconformal.summaries.by_group import GroupSummary
from fedconformal.summaries.losses import LossSummary, summarize_losses
from fedconformal.summaries.origin import Origin
from fedconformal.summaries.rows import summarize
from fedconformal.summaries.stack import pool
from fedconformal.summaries.summary import Summary

__all__ = [
    "ClassSummary",
    "GroupSummary",
    "LossSummary",
    "Origin",
    "Summary",
    "pool",
    "summarize",
    "summarize_losses",
]
