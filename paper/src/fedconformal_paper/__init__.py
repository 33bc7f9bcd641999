"""The paper's evidence, redone: each table and figure is one function, with the paper's own numbers beside ours."""
