"""Studies of saved tables: their config, what is found in the tables, and what is made of it."""

from pathlib import Path

import pytest

from configs import ROOT
from scaling_study.analysis import imported
from scaling_study.common.problems import ConfigError
from scaling_study.config.import_config import is_import

TABLES = {n: f"config/tables/tsmixerx-{n}.txt" for n in (4, 32, 64)}
HEAD = "Name  Self CPU  CPU total  CPU time avg  # of Calls\n"
PLAIN = HEAD + (
    "aten::mm  30.000ms  30.000ms  300.000us  100\n"
    "Optimizer.step#SGD.step  10.000ms  10.000ms  1.000ms  10\n"
)


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def config(tables=TABLES, **keys):
    return {"study": "s", "import": {"tables": dict(tables), **keys}}


def study_of(*texts, **keys):
    """Read texts, as the tables of 1, 2, … processes, which stand in the working directory."""
    for n, text in enumerate(texts, 1):
        Path(f"{n}.txt").write_text(text, encoding="utf-8")
    tables = {n: f"{n}.txt" for n in range(1, len(texts) + 1)}
    return imported.read_tables(imported.load_import(config(tables, **keys)))


def problems(call, *args, **keys):
    with pytest.raises(ConfigError) as caught:
        call(*args, **keys)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.usefixtures("elsewhere")
def test_a_plain_loop_has_more_in_a_step_than_its_optimizer():
    (one,) = (table.saved for table in study_of(PLAIN))
    assert (one.steps, one.step_s) == (10, pytest.approx(0.004))
    assert one.step_from == "self time of the rows, so at least"
    (one,) = study_of(PLAIN + "\nSelf CPU time total: 60.000ms\n")
    assert one.saved.step_s == pytest.approx(0.006)


@pytest.mark.usefixtures("elsewhere")
def test_one_meaning_of_a_step_for_all_tables():
    inside = PLAIN.replace("10.000ms  10.000ms  1.000ms", "10.000ms  40.000ms  4.000ms")
    assert study_of(inside)[0].saved.step_from == "time in Optimizer.step#SGD.step"
    both = [one.saved for one in study_of(inside, PLAIN)]
    assert len({one.step_from for one in both}) == 1
    assert both[0].step_from.startswith("self time")


@pytest.mark.usefixtures("elsewhere")
def test_steps_from_the_config_or_the_schedule_or_an_error():
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


@pytest.mark.usefixtures("elsewhere")
def test_all_mistakes_of_all_tables_at_once():
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
