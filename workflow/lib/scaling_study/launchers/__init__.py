"""The ways to start members, one module each, and the table of them all."""
