"""What was promised, as data, and every sentence about it."""
