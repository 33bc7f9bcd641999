"""Masked sums: the coordinator learns the sum over sites, and no site's own counts."""
