"""Monitoring of outcomes and scores, at a site and over sites."""
