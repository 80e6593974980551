"""From experiments to a verdict: which causes are named, ruled out or undecided."""
