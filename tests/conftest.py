"""Puts this folder on the path of all tests: those in folders below it share its helpers."""
