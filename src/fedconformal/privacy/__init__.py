"""Differential privacy, secure aggregation, signatures and site policies."""

from fedconformal.privacy.dp import calibrate_privately
from fedconformal.privacy.ledger import Ledger, read_ledger, write_ledger
from fedconformal.privacy.local_dp import NoisyHistogram, calibrate_locally, noisy_histogram
from fedconformal.privacy.policy import Leaving, Policy
from fedconformal.privacy.policy_file import read_policy
from fedconformal.privacy.screening import Screened, screen
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
from fedconformal.privacy.sums.drive import Sums, calibrate_by_sums, calibrate_losses_by_sums

__all__ = [
    "Leaving",
    "Ledger",
    "NoisyHistogram",
    "Policy",
    "Screened",
    "Sums",
    "calibrate_by_sums",
    "calibrate_locally",
    "calibrate_losses_by_sums",
    "calibrate_privately",
    "check_signatures",
    "is_sealed",
    "new_id",
    "new_key",
    "noisy_histogram",
    "public_key",
    "read_ledger",
    "read_policy",
    "screen",
    "seal",
    "sign",
    "signed",
    "write_ledger",
]
