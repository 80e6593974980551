"""The axes of a launch, one module each, and the table of them all."""
