"""Every mistake in a config is found, named and explained, all at once, with its line."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

import documents
from configs import FULL, IMPORTED, ROOT, SHIPPED, config, minimal
from scaling_study.common.problems import ConfigError
from scaling_study.config.config import Config, NodeKind, choose_machines, load_config
from scaling_study.config.config_file import as_written, located, read_config
from scaling_study.config.import_config import ImportConfig
from scaling_study.config.mistakes import Keys
from scaling_study.config.plan import make_plan
from scaling_study.launch.axes.axis_table import AXES, read_value

# Parts of a config, each with its mistakes as a person sees them; `…` stands for any text.
MISTAKES = (FULL.parent / "mistakes.txt").read_text(encoding="utf-8").strip().split("\n\n")
OPS = ("intra_op", "inter_op")
REST = {"study": "study: s\n", "workload": "workload: {script: path/to/train.py}\n"}
INJECTED = "sk-planted-0123456789"
SCHEMA = ROOT / "workflow/schemas/study.schema.json"

pytestmark = pytest.mark.usefixtures("config_folder")


def told(text):
    """Return what a run says of a config's text, one line for each mistake."""
    path = Path("config.yaml")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        make_plan(load_config(read_config(path)))
    return str(located(caught.value, [path])).split("\n")


def problem(mapping):
    with pytest.raises(ConfigError) as caught:
        load_config(mapping)
    (found,) = caught.value.problems
    return found


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_told(case):
    text, *expected = case.split("\n=> ")
    rest = "".join(part for key, part in REST.items() if f"\n{key}:" not in f"\n{text}")
    lines = told(f"{text}\n{rest}")
    assert len(lines) == len(expected), lines
    for line, wanted in zip(lines, expected, strict=True):
        pattern = re.escape(wanted).replace("…", ".*")
        assert re.fullmatch(rf"config\.yaml(, |: ){pattern}", line), line
        assert "injected" not in line
        assert len(line) < 700
        assert line.isprintable()


@pytest.mark.parametrize(
    ("mapping", "what"),
    [
        ({"workload": {"script": "path/to/train.py"}}, "study: missing; allowed: 1 to 64 letters"),
        ({"study": "s"}, "workload: missing; allowed: a section with the keys python, cwd"),
        ([{"workload": {"env": {"KEY": INJECTED}}}], "config = [{'workload': {...}}]: is a list"),
        (minimal(seed=[10**5000]), "seed = [<a number of 16610 bits>]: is a list"),
        (minimal(workload={"script": "path/to/train.py", "args": [10**5000]}), "is too large"),
        (minimal(launches={"grid": {"intra_op": range(1, 9)}}), "is of the kind range"),
        (
            minimal(launches={"grid": {key: [*range(1, 4000)] for key in OPS}}),
            "launches = 15992001 launches: too many; allowed: at most 10000",
        ),
    ],
)
def test_what_no_ordinary_text_holds(mapping, what):
    assert what in str(problem(mapping))


@pytest.mark.parametrize(
    "name", ["", "a/b", "..", ".a", "-a", "_a", "a b", "é", "a\n", "x" * 65, "a\\b", "a:b"]
)
def test_study_names_that_are_refused(name):
    assert problem({**minimal(), "study": name}).path == "study"


def test_the_last_of_several_files_has_the_line_and_the_command_line_none():
    first, last = Path("first.yaml"), Path("last.yaml")
    first.write_text("study: s\nseed: 1\nmeasure: {windows: 0}\n")
    last.write_text("\n\n\nseed: -1\n")
    with pytest.raises(ConfigError) as caught:
        load_config(minimal(seed=-1, measure={"windows": 0}))
    error = located(caught.value, [first, last.absolute()])
    assert [one.place for one in error.problems] == ["first.yaml, line 3", "last.yaml, line 4"]
    given = located(caught.value, [first, last], given={"seed": "-1"})
    assert [one.place for one in given.problems] == ["", "first.yaml, line 3"]


# ---- what only a text shows


UNREADABLE = {
    "none": "No such file", "data": "Is a directory", "wide": "is encoded as UTF-16; allowed: UTF-8"
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_files(name):
    Path("wide").write_text("study: s\n", encoding="utf-16")
    with pytest.raises(ConfigError, match=UNREADABLE[name]):
        read_config(Path(name))


def test_arguments_and_variables_are_taken_as_they_are_written():
    first, last = Path("first.yaml"), Path("last.yaml")
    first.write_text(
        "workload:\n  script: a.py\n  args: [3.10, 1:30, 0777, 0x10, yes, ' b', --on]\n"
        "  env: {ONE: 010, TWO: off, LEFT: null}\n"
    )
    last.write_text("workload: {env: {TWO: 1e3, '3': 0x3}}\n")
    read = read_config(first)
    workload = as_written(read, [first])["workload"]
    assert workload["args"] == ["3.10", "1:30", "0777", "0x10", "yes", " b", "--on"]
    assert workload["env"] == {"ONE": "010", "TWO": "off", "LEFT": None}
    read["workload"]["env"] |= read_config(last)["workload"]["env"]
    env = as_written(read, [first, last])["workload"]["env"]
    assert env == {"ONE": "010", "TWO": "1e3", "LEFT": None, "3": "0x3"}
    last.write_text("workload: {args: [2.0]}\n")
    read["workload"]["args"] = [2.0]
    assert as_written(read, [first, last])["workload"]["args"] == ["2.0"]
    assert as_written(None, [first]) is None


# ---- what is read


def test_values_are_read():
    read = load_config(config())
    assert read.workload.args == (
        *("--seed", "{member}", "--lr", "0.001", "{{epoch}}", '{"a": {"b": 1}}', "3"),
    )
    assert read.workload.env == {"DATA_ROOT": "/data", "LEVEL": "3"}
    assert read.processes == (1, 2, 4)
    assert read.launches.one_change["placement"] == ("per_l3", ("0-1", "2-3"), ("0", "1"))
    assert read.launches.one_change["membind"] == ("local", "0", "0-1")
    assert (read.measure.shortest_s, read.machines["epyc"].cores) == (1.0, 192)
    assert read.machines["xeon"] == NodeKind()
    with pytest.raises(ValueError, match="frozen"):
        read.seed = 2


@pytest.mark.parametrize(
    ("section", "written", "key", "read"),
    [
        *(("why", word, "effort", word) for word in ("quick", "full", "off")),
        *(("profile", word, "effort", word) for word in ("quick", "full", "off")),
        *(("profile", False, "effort", "off"), ("profile", {}, "effort", "full")),
        *(("why", False, "effort", "off"), ("why", {}, "effort", "quick")),
        *(("why", {"effort": False}, "effort", "off"), ("data_loader", False, "", "off")),
        *(("confirm", "off", "seconds", None), ("confirm", False, "seconds", None)),
        *(("confirm", {}, "seconds", 300.0), ("confirm", {"seconds": 12.5}, "seconds", 12.5)),
        *(("confirm", {"seconds": "off"}, "seconds", None), ("data_loader", "full", "", "full")),
        *(("confirm", {"seconds": False}, "seconds", None), ("data_loader", "off", "", "off")),
        *(("search", "grid", "budget_minutes", None), ("search", {}, "budget_minutes", None)),
        ("search", {"budget_minutes": 60}, "budget_minutes", 60.0),
        *(
            ("machines", {"x": {"constraint": text}}, "x", NodeKind(constraint=text))
            for text in ("a&b", "a|b", "[rack1*2&rack2*4]", "!gpu", "(a|b)&c")
        ),
    ],
)
def test_words_and_sections(section, written, key, read):
    found = getattr(load_config(minimal(**{section: written})), section)
    assert (found[key] if key == "x" else getattr(found, key) if key else found) == read


@pytest.mark.parametrize(
    ("minutes", "confirm", "seconds"), [(3, {}, 60), (60, {}, 300), (3, "off", None)]
)
def test_a_confirmation_leaves_a_race_its_time(minutes, confirm, seconds):
    read = load_config(minimal(search={"budget_minutes": minutes}, confirm=confirm))
    assert read.confirm.seconds == seconds


@pytest.mark.parametrize("name", ["API_KEY", "HF_TOKEN", "my_password", "AWS_SECRET_ACCESS_KEY"])
def test_a_secret_is_passed_by_its_name(name, monkeypatch):
    script = {"script": "path/to/train.py"}
    passed = minimal(workload={**script, "pass_env": [name]})
    monkeypatch.setenv(name, INJECTED)
    assert load_config(passed).workload.pass_env == (name,)
    assert INJECTED not in str(make_plan(load_config(passed)).to_dict())
    assert problem(minimal(workload={**script, "env": {name: INJECTED}})).nearest == (
        f"pass_env: [{name}]"
    )
    harmless = {"TOKENIZERS_PARALLELISM": "false", "MONKEY": "1"}
    assert load_config(minimal(workload={**script, "env": harmless}))


@pytest.mark.parametrize("name", list(AXES))
def test_words_of_an_axis_are_read_and_its_variables_refused(name):
    for word in AXES[name].words:
        assert read_value(name, word, files=True) == word
    for variable in AXES[name].variables:
        workload = {"script": "path/to/train.py", "env": {variable: "1"}}
        assert "belongs to the axis" in problem(minimal(workload=workload)).what


def test_no_other_machine_is_chosen():
    machines = {"epyc": NodeKind(), "xeon": NodeKind()}
    for choice in ("xeno", 3, ["epyc"], False, "../x"):
        with pytest.raises(ConfigError, match="is no machine of the config; allowed: epyc, xeon"):
            choose_machines(machines, choice)
    with pytest.raises(ConfigError, match="the config names none"):
        choose_machines({}, "epyc")


# ---- what editors and the documentation show


@pytest.mark.parametrize("model", [Config, NodeKind, ImportConfig])
def test_every_key_says_what_it_means_and_allows(model):
    keys = Keys(model)
    for path, one in keys.leaves():
        assert one.description, path
        assert keys.allowed(one), path


def test_there_are_at_most_fifty_keys():
    """A new key takes the place of another one. Those of a machine are options of SLURM."""
    measured, saved = ({path for path, _ in Keys(one).leaves()} for one in (Config, ImportConfig))
    assert len(measured | saved) <= 50


def paths(content):
    """Yield the path of each key in a config, without the names of machines."""
    for key, value in content.items() if isinstance(content, dict) else ():
        yield str(key)
        yield from (f"{key}.{path}" for path in paths(value))


def test_every_key_and_axis_occurs_in_a_shipped_config_or_on_a_page():
    configs = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in [*SHIPPED, IMPORTED]]
    shipped = {path for content in configs for path in paths(content)}
    pages = [*ROOT.glob("*.md"), *(ROOT / "config").glob("*.md"), *(ROOT / "docs").glob("*.md")]
    written = "".join(page.read_text(encoding="utf-8") for page in pages)
    written = re.sub(r"<!-- (\w+) -->.*?<!-- /\1 -->", "", written, flags=re.DOTALL)
    places = [
        f"launches.{role}.{axis}" for role in ("baseline", "grid", "one_change") for axis in AXES
    ]
    known = shipped & {*places}
    keys = [path for one in (Config, NodeKind, ImportConfig) for path, _ in Keys(one).leaves()]
    for name in [*keys, *AXES]:
        word = name.rpartition(".")[2]
        if name not in shipped and not any(path.endswith(f".{name}") for path in known):
            assert re.search(rf"(`|[ {{,.]){word}(`|:)", written), name


@pytest.mark.parametrize("name", documents.DOCUMENTS)
def test_documents_that_are_made_from_the_code_are_up_to_date(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert text == documents.DOCUMENTS[name](text), "run python scripts/documents.py"


def test_a_document_without_a_place_for_a_table_is_refused():
    with pytest.raises(ValueError, match="no place for the table keys"):
        documents.DOCUMENTS["config/README.md"]("# Configs\n")


@pytest.mark.parametrize("path", [*SHIPPED, IMPORTED, FULL], ids=lambda path: path.stem)
def test_every_shipped_config_names_the_schema_and_keeps_to_it(path):
    validator = jsonschema.Draft202012Validator(json.loads(documents.schema()))
    text = path.read_text(encoding="utf-8")
    content = yaml.safe_load(text)
    # JSON has no keys that are numbers.
    validator.validate(json.loads(json.dumps(content)))
    assert not validator.is_valid({**content, "sed": 1})
    assert not validator.is_valid({**content, "study": "a/b"})
    if path != FULL:
        first = text.partition("\n")[0]
        assert first.startswith("# yaml-language-server: $schema=")
        named = (path.parent / first.partition("=")[2]).resolve()
        assert named == SCHEMA.resolve()
