"""What is promised, and to whom."""

from fedconformal.guarantees.by_class import ByClass
from fedconformal.guarantees.every_client import EveryClient
from fedconformal.guarantees.exchangeable import Exchangeable
from fedconformal.guarantees.guarantee import Guarantee
from fedconformal.guarantees.mixture import Mixture
from fedconformal.guarantees.new_client import NewClient
from fedconformal.guarantees.one_client import OneClient
from fedconformal.guarantees.pac import PAC
from fedconformal.guarantees.quantile_of_quantiles import QuantileOfQuantiles
from fedconformal.guarantees.robust import Robust
from fedconformal.guarantees.worst_case import WorstCase

__all__ = [
    "PAC",
    "ByClass",
    "EveryClient",
    "Exchangeable",
    "Guarantee",
    "Mixture",
    "NewClient",
    "OneClient",
    "QuantileOfQuantiles",
    "Robust",
    "WorstCase",
]
