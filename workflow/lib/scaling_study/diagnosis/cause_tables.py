"""The lists of docs/why.md, made from the same entries that experiments and verdicts are made of.

``python -m scaling_study.diagnosis.cause_tables docs/why.md`` brings the file up to date.
"""

import sys

from scaling_study.common import doc_tables
from scaling_study.diagnosis.case import Scope
from scaling_study.diagnosis.cause import Cause
from scaling_study.diagnosis.causes.cause_table import CAUSES
from scaling_study.experiments.interventions import INTERVENTIONS, Intervention

SCOPES: dict[Scope, str] = {
    "scaling_loss": "scaling loss",
    "single_process_loss": "single-process loss",
}


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
    """How a change is made, in words."""
    if intervention.axes:
        return ", ".join(f"`{axis}: {value}`" for axis, value in intervention.axes.items())
    if intervention.derived:
        return "axes, by what the script and the machine have"
    return "its own windows" if intervention.bursts else "inside the processes"


def causes_list() -> str:
    """Return the list of all causes: how each looks, its source, and what helps."""
    return "".join(map(_cause, CAUSES))


def _cause(cause: Cause) -> str:
    scopes = [title for scope, title in SCOPES.items() if cause.ways(scope)]
    remedy = f" What helps: {cause.remedy}"
    if cause.code:
        remedy += f" `{cause.code}`"
    source = cause.source.rstrip(".")
    title = f"- **{cause.title}** (`{cause.id}`; {', '.join(scopes)})."
    return f"{title} {cause.looks}{remedy} Source: {source}.\n"


TABLES = {"interventions": interventions_table, "causes": causes_list}


def updated(text: str) -> str:
    """Replace what stands between each table's ``<!-- name -->`` and ``<!-- /name -->``.

    Raises:
        ValueError: a table has no place in the text.
    """
    return doc_tables.fill(text, TABLES)


if __name__ == "__main__":
    doc_tables.update(sys.argv[1:], updated)
