"""From a config to a plan: launches, counts, cost. The same on every machine."""
