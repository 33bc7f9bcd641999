"""A Flower app that trains, calibrates and evaluates; `fedconformal flower init` copies it."""
