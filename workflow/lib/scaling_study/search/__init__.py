"""Choosing the best launch within a time: which launches are measured next, and how sure it is."""
