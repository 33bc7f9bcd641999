"""Shared utilities without statistics: validated arrays and names, files, chunks and the registry."""
