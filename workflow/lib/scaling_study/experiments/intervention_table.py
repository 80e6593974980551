"""The table of interventions in docs/why.md, made from the entries that experiments use.

``python -m scaling_study.experiments.intervention_table docs/why.md`` brings the file up to date.
"""

import sys

from scaling_study.common import doc_tables
from scaling_study.experiments.interventions import INTERVENTIONS, Intervention


def interventions_table() -> str:
    """Return the table of all changes that take one thing away."""
    rows = (
        (
            f"`{intervention.name}`",
            intervention.title,
            _how(intervention),
            "yes" if intervention.quick else "no, `full` only",
        )
        for intervention in INTERVENTIONS
    )
    return doc_tables.write_table(("change", "what it does", "how", "in `quick`"), rows)


def _how(intervention: Intervention) -> str:
    """Return how a change is made, in words."""
    if intervention.axes:
        return ", ".join(f"`{axis}: {value}`" for axis, value in intervention.axes.items())
    if intervention.derived:
        return "axes, by what the script and the machine have"
    return "its own windows" if intervention.bursts else "inside the processes"


def updated(text: str) -> str:
    """Return a text with the table between ``<!-- interventions -->`` and its end renewed.

    Raises:
        ValueError: the table has no place in the text.
    """
    return doc_tables.fill(text, {"interventions": interventions_table})


if __name__ == "__main__":
    doc_tables.update(sys.argv[1:], updated)
