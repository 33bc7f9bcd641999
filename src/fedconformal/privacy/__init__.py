"""Differential privacy, secure aggregation, signatures and site policies."""

from fedconformal.privacy.calibrate import calibrate_privately
from fedconformal.privacy.ledger import Ledger, read_ledger, write_ledger
from fedconformal.privacy.local_dp import NoisyHistogram, noisy_histogram
from fedconformal.privacy.policy import Outgoing, Policy, read_policy
from fedconformal.privacy.signatures import (
    check_signatures,
    is_sealed,
    new_id,
    new_key,
    public_key,
    seal,
    sign,
    signed,
)

__all__ = [
    "Ledger",
    "NoisyHistogram",
    "Outgoing",
    "Policy",
    "calibrate_privately",
    "check_signatures",
    "is_sealed",
    "new_id",
    "new_key",
    "noisy_histogram",
    "public_key",
    "read_ledger",
    "read_policy",
    "seal",
    "sign",
    "signed",
    "write_ledger",
]
