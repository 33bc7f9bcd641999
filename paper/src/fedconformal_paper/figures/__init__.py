"""The paper's figures, each a function that returns an SVG; the paper's own values are drawn where it gives some."""
