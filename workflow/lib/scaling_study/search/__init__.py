"""The search for the best launch in a time budget: what is measured next, and how sure it is."""
