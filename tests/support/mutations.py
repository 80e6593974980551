"""Plans of configs that are nearly right."""

from scaling_study.analysis.imported import load_import
from scaling_study.config.config import load_config
from scaling_study.config.import_config import is_import
from scaling_study.config.plan import make_plan


def plan(mapping):
    """Do with a config what the workflow does before anything else."""
    return load_import(mapping) if is_import(mapping) else make_plan(load_config(mapping))
