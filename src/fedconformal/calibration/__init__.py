"""Calibration: thresholds, certificates and predictors from summaries."""
