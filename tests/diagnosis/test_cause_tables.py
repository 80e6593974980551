from pathlib import Path

import pytest

from scaling_study.diagnosis.cause_tables import causes_list, interventions_table, updated
from scaling_study.diagnosis.causes.cause_table import CAUSES
from scaling_study.experiments.interventions import INTERVENTIONS

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "why.md"


def test_the_documentation_lists_what_there_is():
    text = DOCUMENTATION.read_text(encoding="utf-8")
    assert text == updated(text), "run python -m scaling_study.diagnosis.cause_tables docs/why.md"


def test_every_cause_has_its_line_with_a_source_and_a_remedy():
    lines = causes_list().splitlines()
    assert len(lines) == len(CAUSES)
    for cause, line in zip(CAUSES, lines, strict=True):
        assert f"`{cause.id}`" in line
        assert " Source: " in line
        assert cause.remedy in line


def test_every_intervention_has_its_row():
    assert interventions_table().count("\n") == len(INTERVENTIONS) + 2


def test_a_file_without_a_place_is_refused():
    with pytest.raises(ValueError, match="no place for the table"):
        updated("# Why\n")
