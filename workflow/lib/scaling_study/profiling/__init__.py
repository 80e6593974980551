"""Profiles of members' operators and stacks, taken outside of all measurements."""
