"""A package that is run as ``python -m ranker.train --seed SEED``."""
