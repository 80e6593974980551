"""Why steps are slow: a file for each cause."""
