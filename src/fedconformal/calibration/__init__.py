"""From summaries to a threshold, a certificate and a predictor."""
