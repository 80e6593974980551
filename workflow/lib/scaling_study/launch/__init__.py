"""What a launch is made of: axes, launchers and counters, each found by its file's name."""
