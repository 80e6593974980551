"""Figures, launch script, report."""
