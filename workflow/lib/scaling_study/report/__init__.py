"""The report, its figures, the flame graphs and the launch script."""
