"""The paper's figures, each a function that returns an SVG, with the paper's values if stated."""
