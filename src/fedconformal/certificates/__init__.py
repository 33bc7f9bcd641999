"""Certificates: promises as data, and the text rendered from them."""
