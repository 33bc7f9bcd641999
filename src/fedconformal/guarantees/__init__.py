"""What is promised, and to whom."""

from fedconformal.guarantees.base import Guarantee
from fedconformal.guarantees.every_client import EveryClient
from fedconformal.guarantees.exchangeable import Exchangeable
from fedconformal.guarantees.mixture import Mixture
from fedconformal.guarantees.one_client import OneClient

__all__ = ["EveryClient", "Exchangeable", "Guarantee", "Mixture", "OneClient"]
