"""Studies of saved tables: their config, what is found in the tables, and what is made of it."""

from pathlib import Path

import pandas as pd
import pytest

from configs import ROOT
from scaling_study.analysis import imported
from scaling_study.analysis.imported import COMMAND, findings, throughput
from scaling_study.common.problems import ConfigError
from scaling_study.common.quantities import TIMES
from scaling_study.config.config import load_config
from scaling_study.config.config_file import read_config
from scaling_study.config.import_config import is_import
from scaling_study.config.plan import make_plan
from scaling_study.records.analysis import SavedTable

TABLES = {n: f"config/tables/tsmixerx-{n}.txt" for n in (4, 32, 64)}
HEAD = "Name  Self CPU  CPU total  CPU time avg  # of Calls\n"
PLAIN = HEAD + (
    "aten::mm  30.000ms  30.000ms  300.000us  100\n"
    "Optimizer.step#SGD.step  10.000ms  10.000ms  1.000ms  10\n"
)


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


def config(tables=TABLES, **keys):
    return {"study": "s", "import": {"tables": dict(tables), **keys}}


@pytest.fixture
def study_of(tmp_path, monkeypatch):
    """Reads texts, as the tables of 1, 2, … processes, which stand in the working directory."""
    monkeypatch.chdir(tmp_path)

    def study_of(*texts, **keys):
        tables = {n: f"{n}.txt" for n in range(1, len(texts) + 1)}
        for name, text in zip(tables.values(), texts, strict=True):
            Path(name).write_text(text, encoding="utf-8")
        return imported.read_tables(imported.load_import(config(tables, **keys)))

    return study_of


def problems(call, *args, **keys):
    with pytest.raises(ConfigError) as caught:
        call(*args, **keys)
    return [str(problem) for problem in caught.value.problems]


def test_a_plain_loop_has_more_in_a_step_than_its_optimizer(study_of):
    (one,) = (table.saved for table in study_of(PLAIN))
    assert (one.steps, one.step_s) == (10, pytest.approx(0.004))
    assert one.step_from == "self time of the rows, so at least"
    (one,) = study_of(PLAIN + "\nSelf CPU time total: 60.000ms\n")
    assert one.saved.step_s == pytest.approx(0.006)


def test_one_meaning_of_a_step_for_all_tables(study_of):
    inside = PLAIN.replace("10.000ms  10.000ms  1.000ms", "10.000ms  40.000ms  4.000ms")
    assert study_of(inside)[0].saved.step_from == "time in Optimizer.step#SGD.step"
    both = [one.saved for one in study_of(inside, PLAIN)]
    assert len({one.step_from for one in both}) == 1
    assert both[0].step_from.startswith("self time")


def test_steps_from_the_config_or_the_schedule_or_an_error(study_of):
    text = PLAIN.replace("Optimizer.step#SGD.step", "step")
    (told,) = problems(study_of, text)
    assert told.startswith("import.tables[1] = '1.txt': has no row Optimizer.step")
    assert "import.steps" in told
    assert [one.saved.steps for one in study_of(text, steps=5)] == [5]
    assert [one.saved.steps for one in study_of(text, steps={1: 6})] == [6]
    (scheduled,) = study_of(PLAIN.replace("Optimizer.step#SGD.step", "ProfilerStep*"))
    assert (scheduled.saved.steps, scheduled.saved.steps_from) == (10, "calls of ProfilerStep*")
    (said,) = study_of(PLAIN, steps={1: 5})
    assert said.saved.steps == 5
    assert said.saved.steps_from == "the config; the table has 10 calls of Optimizer.step#SGD.step"


@pytest.mark.parametrize(
    ("mapping", "start", "end"),
    [
        (config({}), "import.tables = {}: is empty", "{4: four.txt}"),
        (config({"four": TABLES[4]}), "import.tables.four: is no name", "as {4: four.txt}"),
        (config({4: "config/tables/tsmixerx-5.txt"}), "import.tables[4] = ",
         "did you mean 'config/tables/tsmixerx-4.txt'?"),
        (config({4: TABLES[4], 5: TABLES[4]}), "import.tables[5] = ", "each table once"),
        (config({4: "{4}.txt"}), "import.tables[4] = '{4}.txt': has a brace", "without { and }"),
        (config({4: "tests"}), "import.tables[4] = 'tests': is a folder", "directory"),
        (config({4: "README.md"}), "import.tables[4] = 'README.md': has no table", "prints it"),
        (config(steps={5: 1}), "import.steps[5] = 1: has no table", "4, 32, 64"),
        (config(steps={4: 0}), "import.steps[4] = 0: is not allowed", "from 1"),
        (config(step=1), "import.step = 1: unknown key", "did you mean steps?"),
        ({"study": "s", "import": None}, "import = None: is empty", "tables, steps"),
        ({**config(), "workload": {}}, "workload = {}: unknown key", "study, description, import"),
    ],
)  # fmt: skip
def test_mistakes_in_the_config(mapping, start, end):
    assert is_import(mapping)
    (told,) = problems(imported.load_import, mapping)
    assert told.startswith(start)
    assert told.endswith(end)


def test_all_mistakes_of_all_tables_at_once(study_of):
    bad = HEAD + "aten::mm  1.0  1.0ms  1.0ms  1\n" * 5
    told = problems(study_of, bad, PLAIN.replace("SGD.step  10.000ms", "SGD.step  10.000"), "")
    assert len(told) == 7
    first = "import.tables[1] = '1.txt': line 2: '1.0' is no time; allowed: a number with us"
    assert told[0].startswith(first)
    assert told[5].startswith("import.tables[2] = '2.txt': line 3: ")
    assert told[6].startswith("import.tables[3] = '3.txt': has no table")


@pytest.mark.parametrize("mapping", [None, [], {"study": "s"}, {"workload": {}, "imports": {}}])
def test_other_configs_are_not_imported(mapping):
    assert not is_import(mapping)


# ---- growth: computed from tables, and never a cause by itself


def saved(n, step_s):
    fixed = {"path": "a.txt", "steps": 100, "steps_from": "", "step_from": "", "rows": 1}
    return SavedTable(n=n, step_s=step_s, rows_s=step_s, **fixed)


def grown(**ratios):
    """Tables of 4 and 64 processes: each operator takes its ratio as long in the second one."""
    rows = [
        {"n": n, "operator": name, "group": name, "calls_per_step": 10.0,
         "self_s_per_step": 1e-3 * factor, "flops_per_step": None}
        for name, ratio in ratios.items()
        for n, factor in ((4, 1.0), (64, ratio))
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    steps_s = frame.groupby("n")["self_s_per_step"].sum()
    return [saved(n, step_s) for n, step_s in steps_s.items()], frame


def test_operators_that_grow_alike_are_told_from_those_that_do_not():
    """The golden report of the reference tables shows the latter."""
    facts = " ".join(findings(*grown(a=3.0, b=3.0)).facts)
    assert "All 2 operators in both tables take longer with 64 processes than with 4" in facts
    assert f"{TIMES} (a) to " in facts
    assert "They grow alike." in facts
    assert "100% of the added time" in facts
    facts = " ".join(findings(*grown(a=1.0, b=4.0)).facts)
    assert "1 of 2 operators" in facts
    assert "alike" not in facts


def test_a_step_that_does_not_grow_needs_no_explanation():
    tables, operators = grown(a=1.05)
    assert "nothing to explain" in findings(tables, operators).answer
    assert "nothing to explain" in findings(tables[:1], operators).answer


@pytest.mark.parametrize(
    ("steps_s", "start"),
    [
        ({4: 0.01, 8: 0.01}, "8 processes do the most together: 800 steps/s"),
        ({4: 0.01, 8: 0.02}, "8 processes do no more together than 4: 400 against 400 steps/s"),
        ({1: 0.01, 4: 0.01, 8: 0.03}, "8 processes do no more together than 4: 267 against 400"),
        ({4: 0.01, 8: 0.0197}, "8 processes do no more together than 4: 406 against 400"),
        ({4: 0.01, 8: 0.0190}, "8 processes do the most together: 421 steps/s"),
    ],
)
def test_throughput_is_computed(steps_s, start):
    assert throughput([saved(*one) for one in steps_s.items()]).startswith(start)


def test_the_config_that_decides_is_ready():
    plan = make_plan(load_config(read_config(ROOT / COMMAND.split()[-1])))
    assert (plan.why.effort, plan.processes) == ("full", "auto")
