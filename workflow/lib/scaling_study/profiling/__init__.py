"""Operators and stacks of members that are not measured."""
