"""The folder of this project: a checkout, or the same files in an installed package."""

from pathlib import Path

PROJECT = Path(__file__).parents[4]
TEMPLATES = PROJECT / "workflow/report"
