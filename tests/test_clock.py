"""No duration depends on the time of day, which may be set while a study runs."""

import ast

from jobs import ROOT


def test_nothing_that_lasts_is_measured_by_the_time_of_day():
    """The time of day is only for people, and to compare with the times of files."""
    of_day = {"time.time", "time.time_ns", "datetime.now", "datetime.today", "datetime.utcnow"}
    asked = [
        f"{path.stem} {ast.unparse(node)}"
        for path in (ROOT / "workflow/lib/scaling_study").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in of_day
    ]
    assert sorted(asked) == [
        *(f"{name} datetime.now" for name in ("cli", "confirm", "jobs")),
        *(f"{name} datetime.now" for name in ("microbenchmarks", "model_queue")),
        "progress time.time",
    ]
