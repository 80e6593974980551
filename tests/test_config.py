"""Every mistake in a config is found, named and explained, all at once."""

import datetime as dt
import os
import tempfile
from pathlib import Path

import pytest

from configs import FULL, ROOT, SHIPPED, config, make_files, minimal
from scaling_study.common import placeholders
from scaling_study.common.problems import ConfigError
from scaling_study.config.config import load_config
from scaling_study.config.config_schema import allowed_text, keys_of
from scaling_study.config.config_table import updated
from scaling_study.config.plan import make_plan
from scaling_study.launch.axes.axis_table import AXES, read_value


@pytest.fixture(scope="module", autouse=True)
def folder():
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        make_files(Path(name))
        os.chdir(name)
        yield Path(name)
        os.chdir(before)


def problems(mapping):
    with pytest.raises(ConfigError) as caught:
        load_config(mapping)
    lines = str(caught.value).split("\n")
    assert lines == [str(problem) for problem in caught.value.problems]
    return caught.value.problems


def only_problem(mapping):
    found = problems(mapping)
    assert len(found) == 1, [str(problem) for problem in found]
    return found[0]


def put(keys, value):
    """Return the full config with one value replaced, or dropped when it is `...`."""
    mapping = config()
    *outer, last = keys.split(".")
    section = mapping
    for key in outer:
        section = section[key]
    if value is ...:
        del section[last]
    else:
        section[last] = value
    return mapping


@pytest.mark.parametrize("path", [*SHIPPED, FULL], ids=lambda path: path.stem)
def test_shipped_configs_are_valid(path):
    assert load_config(config(path)).study


def test_shipped_scripts_are_there():
    named = {path.stem: ROOT / config(path)["workload"]["script"] for path in SHIPPED}
    assert {stem for stem, script in named.items() if not script.is_file()} == {"own-script"}


def test_values_are_read():
    read = load_config(config())
    assert read.workload.args == (
        *("--seed", "{member}", "--lr", "0.001", "{{epoch}}", '{"a": {"b": 1}}', "3"),
    )
    assert read.workload.env == {"DATA_ROOT": "/data", "LEVEL": "3"}
    assert read.processes == (1, 2, 4)
    assert read.launches.one_change["placement"] == ("per_l3", ("0-1", "2-3"), ("0", "1"))
    assert read.launches.one_change["membind"] == ("local", "0", "0-1")
    assert read.measure.shortest_s == 1.0


def test_defaults():
    read = load_config(minimal())
    assert (read.description, read.seed, read.processes) == ("", 1, "auto")
    assert read.objective == "models_per_hour"
    assert (read.workload.args, read.workload.env, read.workload.inputs) == ((), {}, ())
    assert (read.workload.step, read.workload.steps_per_model) == ("optimizer", "auto")
    assert (read.launches.baseline, read.launches.grid, read.launches.include) == ({}, {}, ())
    assert read.measure.model_dump() == {
        "replicates": 3,
        "windows": 3,
        "steps": 20,
        "shortest_s": 1.0,
        "longest_s": 10.0,
        "settle_s": 0.2,
        "warmup_steps": 10,
        "retakes": 2,
        "start_timeout_s": 300.0,
        "hang_timeout_s": 300.0,
        "isolated": False,
    }


@pytest.mark.parametrize(
    ("written", "read"),
    [
        *(("quick", "quick"), ("full", "full"), ("off", "off"), (False, "off"), ({}, "quick")),
        *(({"effort": False}, "off"), ({"effort": "full", "launches": ["baseline"]}, "full")),
    ],
)
def test_how_much_is_explained_is_a_word_or_a_section(written, read):
    assert load_config(minimal(why=written)).why.effort == read


@pytest.mark.parametrize(
    ("written", "read"),
    [
        *(("off", None), (False, None), ({}, 300.0), ({"seconds": 60}, 60.0)),
        *(({"seconds": "off"}, None), ({"seconds": False}, None), ({"seconds": 12.5}, 12.5)),
    ],
)
def test_how_long_is_confirmed_is_a_section_or_off(written, read):
    assert load_config(minimal(confirm=written)).confirm.seconds == read


@pytest.mark.parametrize(
    ("written", "read"),
    [("grid", None), ({}, None), ({"budget_minutes": 60}, 60.0), ({"budget_minutes": None}, None)],
)
def test_a_search_is_a_grid_or_has_a_budget(written, read):
    assert load_config(minimal(search=written)).search.budget_minutes == read


def test_a_confirmation_leaves_a_race_its_time():
    short = load_config(minimal(search={"budget_minutes": 3}))
    assert short.confirm.seconds == 60
    assert load_config(minimal(search={"budget_minutes": 60})).confirm.seconds == 300
    off = load_config(minimal(search={"budget_minutes": 3}, confirm="off"))
    assert off.confirm.seconds is None
    asked = minimal(search={"budget_minutes": 3}, confirm={"seconds": 121})
    with pytest.raises(ConfigError, match=r"confirm\.seconds.*121.*at most 120"):
        load_config(asked)


def test_a_race_is_on_one_machine():
    with pytest.raises(ConfigError, match="names machines"):
        load_config(minimal(search={"budget_minutes": 60}, machines={"a": {}}))


def test_a_config_does_not_change():
    read = load_config(minimal())
    with pytest.raises(ValueError, match="frozen"):
        read.seed = 2


# key, value, path of the problem, part of what is wrong, nearest match
MISTAKES = [
    # a word that may stand for its section; YAML reads on as true
    ("why", "ful", "why", "is not a known word", "full"),
    ("why", True, "why", "is a boolean", None),
    ("why", ["quick"], "why", "is a list", None),
    ("why", None, "why", "is empty", None),
    ("why.effort", "of", "why.effort", "is not a known word", "off"),
    ("why.launches", "default", "why.launches", "is text", "['default']"),
    ("why.lunches", [], "why.lunches", "unknown key", "launches"),
    ("confirm", "of", "confirm", "is not a known word", "off"),
    ("confirm", True, "confirm", "is a boolean", None),
    ("confirm", 300, "confirm", "is a whole number", "{seconds: 300}"),
    ("confirm", None, "confirm", "is empty", None),
    ("confirm.seconds", 5, "confirm.seconds", "is not allowed", "10"),
    ("confirm.seconds", 1e6, "confirm.seconds", "is not allowed", "86400"),
    ("confirm.seconds", True, "confirm.seconds", "is a boolean", None),
    ("confirm.seconds", "long", "confirm.seconds", "is not a known word", None),
    ("confirm.second", 60, "confirm.second", "unknown key", "seconds"),
    ("search", "gird", "search", "is not a known word", "grid"),
    ("search", 60, "search", "is a whole number", "{budget_minutes: 60}"),
    ("search", None, "search", "is empty", None),
    ("search.budget_minutes", 1, "search.budget_minutes", "is not allowed", "3"),
    ("search.budget_minutes", 1e6, "search.budget_minutes", "is not allowed", "10080"),
    ("search.budget_minutes", "hour", "search.budget_minutes", "is text", None),
    ("search.tolerance", 0.5, "search.tolerance", "is not allowed", None),
    ("search.budget", 60, "search.budget", "unknown key", "budget_minutes"),
    # names of keys
    ("measure.windws", 3, "measure.windws", "unknown key", "windows"),
    ("windows", 3, "windows", "unknown key", "measure.windows"),
    ("measure.study", "x", "measure.study", "unknown key", "study"),
    ("measure.colour", 3, "measure.colour", "unknown key", None),
    ("launches.grids", {}, "launches.grids", "unknown key", "grid"),
    ("launches.baseline.intraop", 1, "launches.baseline.intraop", "unknown axis", "intra_op"),
    ("launches.grid.alocator", ["glibc"], "launches.grid.alocator", "unknown axis", "allocator"),
    ("launches.exclude", [{"isaa": "avx2"}], "launches.exclude[0].isaa", "unknown axis", "isa"),
    ("study", ..., "study", "missing", None),
    ("workload.script", ..., "workload.script", "missing", None),
    ("workload", ..., "workload", "missing", None),
    # kinds of values
    ("study", 2024, "study", "whole number", '"2024"'),
    ("study", None, "study", "empty", None),
    ("study", True, "study", "boolean", None),
    ("description", ["a"], "description", "list", None),
    ("description", dt.date(2024, 1, 1), "description", "kind date", None),
    ("seed", "1", "seed", "text", "1"),
    ("seed", 1.0, "seed", "fraction", "1"),
    ("seed", 1.5, "seed", "fraction", None),
    ("seed", True, "seed", "boolean", None),
    ("workload", None, "workload", "empty", None),
    ("workload", "train.py", "workload", "text", None),
    ("workload.args", "--seed 1", "workload.args", "text", "['--seed', '1']"),
    ("workload.args", {"--seed": 1}, "workload.args", "section", None),
    ("workload.args", ["--flag", True], "workload.args[1]", "boolean", None),
    ("workload.args", [None], "workload.args[0]", "empty", None),
    ("workload.args", [["--seed"]], "workload.args[0]", "list", None),
    ("workload.args", [float("nan")], "workload.args[0]", "not finite", "'nan'"),
    ("workload.env", ["A=1"], "workload.env", "list", None),
    ("workload.env", {"A": True}, "workload.env.A", "boolean", None),
    ("workload.env", {"A": {}}, "workload.env.A", "section", None),
    ("workload.inputs", "data", "workload.inputs", "text", "['data']"),
    ("workload.inputs", [3], "workload.inputs[0]", "whole number", None),
    ("workload.steps_per_model", "500", "workload.steps_per_model", "text", "500"),
    ("workload.steps_per_model", "atuo", "workload.steps_per_model", "text", "auto"),
    ("workload.steps_per_model", True, "workload.steps_per_model", "boolean", None),
    ("workload.steps_per_model", 5.0, "workload.steps_per_model", "fraction", "5"),
    ("processes", 4, "processes", "whole number", "[4]"),
    ("processes", "autoo", "processes", "known word", "auto"),
    ("processes", {"from": 1}, "processes", "section", None),
    ("processes", [1, "2"], "processes[1]", "text", "2"),
    ("processes", [1, 2.0], "processes[1]", "fraction", "2"),
    ("processes", [True], "processes[0]", "boolean", None),
    ("launches", None, "launches", "empty", None),
    ("launches", [], "launches", "list", None),
    ("launches.grid", None, "launches.grid", "empty", None),
    ("launches.grid", ["intra_op"], "launches.grid", "list", None),
    ("launches.grid.isa", "avx2", "launches.grid.isa", "text", "['avx2']"),
    ("launches.grid.isa", None, "launches.grid.isa", "empty", None),
    ("launches.one_change.inter_op", 2, "launches.one_change.inter_op", "whole", "[2]"),
    ("launches.baseline", [1], "launches.baseline", "list", None),
    ("launches.include", {"isa": "avx2"}, "launches.include", "section", "[{'isa': 'avx2'}]"),
    ("launches.include", ["avx2"], "launches.include[0]", "text", None),
    ("launches.include", [{"isa": ["avx2"]}], "launches.include[0].isa", "list", None),
    ("measure.windows", "3", "measure.windows", "text", "3"),
    ("measure.windows", 3.0, "measure.windows", "fraction", "3"),
    ("measure.shortest_s", "1e-1", "measure.shortest_s", "text", "0.1"),
    ("measure.shortest_s", "soon", "measure.shortest_s", "text", None),
    ("measure.shortest_s", True, "measure.shortest_s", "boolean", None),
    ("measure.isolated", "no", "measure.isolated", "text", None),
    ("measure.isolated", 0, "measure.isolated", "whole number", None),
    ("objective", "one_modle", "objective", "is not a known word", "one_model"),
    ("objective", 1, "objective", "whole number", None),
    ("objectve", "one_model", "objectve", "unknown key", "objective"),
    # impossible values
    ("seed", -1, "seed", "not allowed", None),
    ("seed", 2**400, "seed", "not allowed", None),
    ("workload.step", "optimiser", "workload.step", "known word", "optimizer"),
    ("workload.step", True, "workload.step", "boolean", None),
    ("workload.steps_per_model", 0, "workload.steps_per_model", "not allowed", None),
    ("workload.args", ["{membr}"], "workload.args[0]", "{membr} stands for nothing", "{member}"),
    ("workload.args", ["a{epoch}"], "workload.args[0]", "{epoch} stands for nothing", None),
    ("workload.args", ["a\0b"], "workload.args[0]", "passed", None),
    ("workload.args", ["\ud800"], "workload.args[0]", "passed", None),
    ("workload.args", [10**5000], "workload.args[0]", "too large", None),
    ("workload.env", {"A-B": "1"}, "workload.env.A-B", "variable name", None),
    ("workload.env", {"": "1"}, "workload.env['']", "variable name", None),
    ("workload.env", {3: "1"}, "workload.env[3]", "variable name", None),
    ("processes", [], "processes", "empty", "auto"),
    ("processes", [0, 1], "processes[0]", "not allowed", None),
    ("processes", [1, -2], "processes[1]", "not allowed", None),
    ("processes", [1, 10**9], "processes[1]", "not allowed", None),
    ("processes", [1, 2, 1], "processes[2]", "twice", None),
    ("measure.replicates", 0, "measure.replicates", "not allowed", None),
    ("measure.windows", -1, "measure.windows", "not allowed", None),
    ("measure.steps", 0, "measure.steps", "not allowed", None),
    ("measure.shortest_s", 0.0, "measure.shortest_s", "not allowed", None),
    ("measure.shortest_s", -1.0, "measure.shortest_s", "not allowed", None),
    ("measure.shortest_s", float("nan"), "measure.shortest_s", "not finite", None),
    ("measure.longest_s", float("inf"), "measure.longest_s", "not finite", None),
    ("measure.shortest_s", 20, "measure.longest_s", "below shortest_s", None),
    ("measure.settle_s", 10.5, "measure.settle_s", "no step to count", None),
    ("measure.settle_s", -0.1, "measure.settle_s", "not allowed", None),
    ("measure.retakes", -1, "measure.retakes", "not allowed", None),
    ("measure.start_timeout_s", 0, "measure.start_timeout_s", "not allowed", None),
    # values of axes
    ("launches.baseline.intra_op", 0, "launches.baseline.intra_op", "not allowed", None),
    ("launches.grid.intra_op", [1, "2"], "launches.grid.intra_op[1]", "known word", "2"),
    ("launches.grid.intra_op", [1, 2.0], "launches.grid.intra_op[1]", "fraction", "2"),
    ("launches.grid.intra_op", [True, 1], "launches.grid.intra_op[0]", "boolean", None),
    ("launches.grid.intra_op", ["deflt"], "launches.grid.intra_op[0]", "known word", "default"),
    ("launches.grid.intra_op", [], "launches.grid.intra_op", "empty", None),
    ("launches.grid.intra_op", [1, 2, 1], "launches.grid.intra_op[2]", "twice", None),
    ("launches.grid.isa", ["AVX-2"], "launches.grid.isa[0]", "known word", "avx2"),
    ("launches.one_change.allocator", ["jemaloc"], None, "known word", "jemalloc"),
    ("launches.one_change.blas", ["libfast.so"], None, "known word", None),
    ("launches.baseline.placement", False, "launches.baseline.placement", "boolean", "none"),
    ("launches.baseline.membind", None, "launches.baseline.membind", "empty", "none"),
    ("launches.baseline.wait_policy", True, "launches.baseline.wait_policy", "boolean", None),
    ("launches.baseline.placement", [], "launches.baseline.placement", "empty", None),
    ("launches.baseline.placement", ["0-"], "launches.baseline.placement[0]", "ids", None),
    ("launches.baseline.placement", ["3-1"], "launches.baseline.placement[0]", "ids", None),
    ("launches.baseline.placement", [""], "launches.baseline.placement[0]", "ids", None),
    ("launches.baseline.placement", [-1], "launches.baseline.placement[0]", "ids", None),
    ("launches.baseline.placement", [1.5], "launches.baseline.placement[0]", "fraction", None),
    ("launches.one_change.placement", ["0-1"], None, "known word", None),
    ("launches.baseline.membind", "0-x", "launches.baseline.membind", "ids", None),
    ("launches.baseline.membind", 10**9, "launches.baseline.membind", "ids", None),
    # files
    ("workload.script", "path/to/trane.py", None, "not exist", "'path/to/train.py'"),
    ("workload.script", "no/such/folder.py", "workload.script", "not exist", None),
    ("workload.script", "plain/train.py", "workload.script", "not exist", None),
    ("workload.script", "path/to", "workload.script", "folder", None),
    ("workload.script", "", "workload.script", "folder", None),
    ("workload.script", "a\0b", "workload.script", "not a path", None),
    ("workload.script", "x" * 5000, "workload.script", "too long", None),
    ("workload.inputs", ["data", "dat"], "workload.inputs[1]", "not exist", "'data'"),
    ("workload.inputs", ["data", "data"], "workload.inputs[1]", "twice", None),
    ("launches.baseline.blas", "./libfst.so", None, "not exist", "'libfast.so'"),
    ("launches.baseline.allocator", "/no/lib.so", None, "not exist", None),
    ("launches.baseline.allocator", "./data", None, "folder", None),
    ("launches.baseline.build", "./pythn", None, "not exist", "'python'"),
    ("launches.baseline.build", "./plain", None, "not executable", None),
    ("launches.baseline.build", "envs/new torch.txt", None, "not exist", "'envs/old torch.txt'"),
    ("launches.baseline.build", "elsewhere.txt", None, "not in envs/", None),
    ("launches.baseline.build", "python", "launches.baseline.build", "known word", None),
]


@pytest.mark.parametrize(("key", "value", "path", "what", "nearest"), MISTAKES)
def test_one_mistake_is_one_message(key, value, path, what, nearest):
    problem = only_problem(put(key, value))
    assert problem.path.startswith(path or key)
    assert what in problem.what
    assert problem.nearest == nearest
    assert problem.allowed
    line = str(problem)
    assert line.startswith(problem.path)
    assert "\n" not in line
    assert len(line) < 700
    assert line.encode()
    if value is not ...:
        assert f"{problem.path} = {problem.value}: " in line


@pytest.mark.parametrize(
    "name", ["", "a/b", "..", ".a", "-a", "_a", "a b", "é", "a\n", "x" * 65, "a\\b", "a:b"]
)
def test_study_names_that_are_refused(name):
    assert only_problem(put("study", name)).path == "study"


@pytest.mark.parametrize("name", ["a", "7", "A-b_c.d", "x" * 64])
def test_study_names_that_are_allowed(name):
    assert load_config(put("study", name)).study == name


def test_study_name_is_suggested():
    assert only_problem(put("study", "../my study")).nearest == "my-study"


@pytest.mark.parametrize("mapping", [None, [], "study", 3, [{"study": "s"}]])
def test_top_level_is_no_mapping(mapping):
    problem = only_problem(mapping)
    assert problem.path == "config"
    assert "study" in problem.allowed


def test_keys_that_are_no_text():
    mapping = config()
    mapping[True] = 1
    mapping["measure"][None] = 1
    mapping["launches"]["grid"][3] = [1]
    assert [p.path for p in problems(mapping)] == [
        "launches.grid[3]",
        "measure.None",
        "True",
    ]


def test_all_mistakes_at_once():
    mapping = {
        "study": "a/b",
        "sed": 1,
        "workload": {"script": "nowhere.py", "args": ["{x}", None], "env": {"1": "a", "B": []}},
        "processes": [0, 1, 1],
        "launches": {
            "baseline": {"intra_op": 0, "foo": 1},
            "grid": {"intra_op": ["x", 1, 1], "isa": "avx2"},
            "exclude": [{"isa": 3}],
        },
        "measure": {"replicates": 0, "shortest_s": 5.0, "longest_s": 1.0, "isolated": "x"},
    }
    assert {problem.path for problem in problems(mapping)} == {
        *("study", "sed", "workload.script", "workload.args[0]", "workload.args[1]"),
        *("workload.env['1']", "workload.env.B", "processes[0]", "processes[2]"),
        *("launches.baseline.intra_op", "launches.baseline.foo", "launches.grid.intra_op[0]"),
        *("launches.grid.intra_op[2]", "launches.grid.isa", "launches.exclude[0].isa"),
        *("measure.replicates", "measure.longest_s", "measure.isolated"),
    }


PLANTED = "sk-planted-0123456789"


@pytest.mark.parametrize(
    "change",
    [
        {"env": {"API KEY": PLANTED}},
        {"env": {"API_TOKEN": PLANTED}},
        {"pass_env": [f"API_KEY={PLANTED}"]},
        {"pass_env": {"API_KEY": PLANTED}},
        {"env": {"KEY": PLANTED + "\0"}},
        {"env": {"KEY": [PLANTED]}},
        {"env": {f"KEY={PLANTED}": None}},
        {"env": [f"KEY={PLANTED}"]},
        {"env": f"KEY={PLANTED}"},
        {"envs": {"KEY": PLANTED}},
        {"environment": {"KEY": PLANTED}},
        {"KEY": PLANTED},
    ],
    ids=str,
)
def test_no_mistake_shows_a_value_of_the_environment(change):
    mapping = config()
    mapping["workload"].pop("env")
    mapping["workload"].update(change)
    assert PLANTED not in str(only_problem(mapping))


@pytest.mark.parametrize("name", ["API_KEY", "HF_TOKEN", "my_password", "AWS_SECRET_ACCESS_KEY"])
def test_what_may_be_a_secret_belongs_into_the_shell(name, monkeypatch):
    problem = only_problem(put("workload.env", {name: PLANTED}))
    assert problem.nearest == f"pass_env: [{name}]"
    assert load_config(put("workload.env", {"TOKENIZERS_PARALLELISM": "false", "MONKEY": "1"}))
    passed = put("workload.pass_env", [name])
    monkeypatch.delenv(name, raising=False)
    assert "is not set in this shell" in only_problem(passed).what
    monkeypatch.setenv(name, PLANTED)
    assert load_config(passed).workload.pass_env == (name,)
    assert PLANTED not in str(make_plan(load_config(passed)).to_dict())


@pytest.mark.parametrize(
    "change",
    [{"KEY": PLANTED}, {"env": {"KEY": PLANTED}}, {"workload": [{"env": {"KEY": PLANTED}}]}],
)
def test_nor_where_its_section_slipped_elsewhere(change):
    assert PLANTED not in str(only_problem({**config(), **change}))
    with pytest.raises(ConfigError) as caught:
        load_config([change])
    assert PLANTED not in str(caught.value)


def test_a_misspelt_key_is_not_also_missing():
    mapping = config()
    mapping["workload"]["scrip"] = mapping["workload"].pop("script")
    assert only_problem(mapping).nearest == "script"


@pytest.mark.parametrize("name", list(AXES))
def test_variables_of_an_axis_are_refused(name):
    for variable in AXES[name].variables:
        problem = only_problem(put("workload.env", {variable: "1"}))
        assert problem.path == f"workload.env.{variable}"
        owners = [axis for axis in AXES if variable in AXES[axis].variables]
        assert any(f"axis {owner}" in problem.what for owner in owners)


# the launches section as a whole: launches, path, part of what is wrong
LAUNCHES = [
    ({"include": [{}]}, "include[0]", "launches.default"),
    ({"baseline": {"intra_op": 1}, "include": [{}]}, "include[0]", "launches.baseline"),
    (
        {"baseline": {"intra_op": 1}, "include": [{"intra_op": "default"}]},
        "include[0]",
        "launches.default",
    ),
    ({"include": [{"isa": "avx2"}, {"isa": "avx2"}]}, "include[1]", "launches.include[0]"),
    ({"grid": {"isa": ["avx2"]}, "include": [{"isa": "avx2"}]}, "include[0]", "launches.grid"),
    (
        {"one_change": {"isa": ["avx2"]}, "include": [{"isa": "avx2"}]},
        "include[0]",
        "launches.one_change",
    ),
    ({"exclude": [{"isa": "avx2"}]}, "exclude[0]", "matches no launch"),
    ({"grid": {"isa": ["avx512"]}, "exclude": [{"isa": "avx2"}]}, "exclude[0]", "matches no"),
    (
        {"grid": {"isa": ["default", "avx2"]}, "exclude": [{"isa": "default"}]},
        "exclude[0]",
        "matches no launch",
    ),
    ({"grid": {"isa": ["avx2"]}, "exclude": [{"isa": "avx2"}]}, "exclude", "drops all 1"),
    ({"grid": {"isa": ["avx2"]}, "exclude": [{}]}, "exclude", "drops all 1"),
    (
        {"grid": {"intra_op": list(range(1, 102)), "inter_op": list(range(1, 101))}},
        "",
        "too many",
    ),
]


@pytest.mark.parametrize(("launches", "path", "what"), LAUNCHES)
def test_launches_that_contradict_each_other(launches, path, what):
    problem = only_problem(minimal(launches=launches))
    assert problem.path == f"launches.{path}".rstrip(".")
    assert what in problem.what


def test_a_race_may_be_kept_from_putting_launches_together():
    launches = {
        "one_change": {"isa": ["avx2"], "blas": ["mkl"]},
        "exclude": [{"isa": "avx2", "blas": "mkl"}],
    }
    problem = only_problem(minimal(launches=launches))
    assert (problem.path, "matches no launch" in problem.what) == ("launches.exclude[0]", True)
    raced = minimal(launches=launches, search={"budget_minutes": 5})
    assert make_plan(load_config(raced)).exclude == ({"isa": "avx2", "blas": "mkl"},)
    launches["exclude"] = [{"isa": "avx512", "blas": "mkl"}]
    assert only_problem(raced).path == "launches.exclude[0]"


def test_a_product_beyond_all_bounds_is_not_expanded():
    huge = {name: list(range(1, 4000)) for name in ("intra_op", "inter_op")}
    assert "15992001 launches" in str(only_problem(minimal(launches={"grid": huge})))


def test_files_are_not_looked_up_when_a_plan_is_read_back():
    from scaling_study.config.config import Workload

    assert Workload.model_validate({"script": "not/here.py", "inputs": ["nor/here"]})


@pytest.mark.parametrize("name", list(AXES))
def test_words_are_read_as_they_are(name):
    for word in AXES[name].words:
        assert read_value(name, word, files=True) == word


def test_every_key_says_what_it_means_and_allows():
    from scaling_study.config.config import Config

    for path, field in keys_of(Config):
        assert field.description, path
        assert allowed_text(field), path


def test_the_tables_in_the_readme_are_up_to_date():
    text = (ROOT / "config/README.md").read_text(encoding="utf-8")
    assert text == updated(text), "run python -m scaling_study.config.config_table config/README.md"


def test_a_readme_without_places_for_tables():
    with pytest.raises(ValueError, match="no place for the table keys"):
        updated("# Configs\n")


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{member}", "3"),
        ("out/{member}/{member}.pt", "out/3/3.pt"),
        ("{{member}}", "{member}"),
        ("{{epoch}}-{member}", "{epoch}-3"),
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
        ("{} { member }", "{} { member }"),
    ],
)
def test_placeholders(text, filled):
    assert placeholders.unknown(text) is None
    assert placeholders.fill(text, {"member": 3}) == filled
