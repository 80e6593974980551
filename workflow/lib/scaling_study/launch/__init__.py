"""The parts of a launch: axes, launchers and counters, each found by its name."""
