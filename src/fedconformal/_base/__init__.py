"""What every package uses: checked arrays and names, files, chunks, the registry. No statistics."""
