"""Shared utilities: checked arrays and names, files, chunks and the registry. No statistics."""
