"""Guarantees map counts and sizes of sites to coverage; modules of this package are registered by name."""

from fedconformal.guarantees.every_site import EverySite, OneSite
from fedconformal.guarantees.fcp import FCP
from fedconformal.guarantees.guarantee import Guarantee
from fedconformal.guarantees.mixture import Mixture
from fedconformal.guarantees.new_site import NewSite
from fedconformal.guarantees.pac import PAC, LearnThenTest
from fedconformal.guarantees.prevalence import Prevalence
from fedconformal.guarantees.quantile_of_quantiles import QuantileOfQuantiles
from fedconformal.guarantees.robust import Robust
from fedconformal.guarantees.strata import ByClass, ByGroup
from fedconformal.guarantees.worst_case import WorstCase

__all__ = [
    "FCP",
    "PAC",
    "ByClass",
    "ByGroup",
    "EverySite",
    "Guarantee",
    "LearnThenTest",
    "Mixture",
    "NewSite",
    "OneSite",
    "Prevalence",
    "QuantileOfQuantiles",
    "Robust",
    "WorstCase",
]
