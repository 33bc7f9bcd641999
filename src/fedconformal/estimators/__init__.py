"""scikit-learn estimators that answer with prediction sets and intervals."""
