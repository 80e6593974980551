"""Kinds of node in a config: every mistake is named, and one of them can be chosen."""

import os
import tempfile
from pathlib import Path

import pytest

from configs import make_files, minimal
from scaling_study.common.problems import ConfigError
from scaling_study.config.config import load_config
from scaling_study.config.config_machines import NodeKind, choose_machines
from scaling_study.config.config_table import machines_table

EPYC = {
    "constraint": "genoa",
    "partition": "cpu",
    "account": "lab",
    "qos": "long",
    "cores": 192,
    "price": 3,
    "watts": 700,
}


@pytest.fixture(scope="module", autouse=True)
def folder():
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        make_files(Path(name))
        os.chdir(name)
        yield
        os.chdir(before)


def mistakes(**sections):
    with pytest.raises(ConfigError) as caught:
        load_config(minimal(**sections))
    return str(caught.value).split("\n")


def test_machines_are_read():
    read = load_config(minimal(machines={"epyc": EPYC, "xeon": {}}, currency="EUR"))
    assert read.machines["epyc"].model_dump() == {**EPYC, "price": 3.0, "watts": 700.0}
    assert read.machines["xeon"] == NodeKind()
    assert list(read.machines) == ["epyc", "xeon"]
    assert load_config(minimal()).machines == {}


def test_what_slurm_knows_of_features_is_allowed():
    for constraint in ("a&b", "a|b", "[rack1*2&rack2*4]", "!gpu", "(a|b)&c"):
        load_config(minimal(machines={"x": {"constraint": constraint}}))
    load_config(minimal(machines={"x": {"partition": "cpu,cpu-long"}}))


@pytest.mark.parametrize(
    ("machines", "said"),
    [
        ({"epyc": {"partitions": "cpu"}}, "machines.epyc.partitions = 'cpu': unknown key"),
        ({"epyc": {"partitions": "cpu"}}, "did you mean partition?"),
        ({"epyc": {"constraint": 7763}}, 'did you mean "7763"?'),
        ({"epyc": {"constraint": "a b"}}, "machines.epyc.constraint = 'a b': is not allowed"),
        ({"epyc": {"account": "lab; rm -rf /"}}, "is not allowed"),
        ({"epyc": {"account": "lab\n"}}, "is not allowed"),
        ({"epyc": {"partition": "--wrap"}}, "is not allowed"),
        ({"epyc": {"qos": "$(id)"}}, "is not allowed"),
        ({"epyc": {"cores": 0}}, "allowed: a whole number from 1 to 10000, or null"),
        ({"epyc": {"cores": 1.5}}, "machines.epyc.cores = 1.5"),
        ({"epyc": {"watts": float("inf")}}, "machines.epyc.watts = inf"),
        ({"epyc": {"price": 3}}, "machines.epyc.price = 3.0: has no currency"),
        ({"a b": {}}, "did you mean a-b?"),
        ({"64": {}}, "a letter first"),
        ({True: {}}, "is not a machine's name"),
        ({"../x": {}}, "is not a machine's name"),
        ({"epyc": None}, "machines.epyc = None: is empty"),
        (["epyc"], "is a list"),
        (None, "is empty"),
    ],
)
def test_mistakes_are_named(machines, said):
    (line,) = mistakes(machines=machines)
    assert said in line


def test_all_mistakes_are_named_at_once():
    lines = mistakes(
        machines={"a": {"cores": 0, "watts": "many"}, "b": {"prize": 1}, "c c": {}},
        currency="\N{RIGHT-TO-LEFT OVERRIDE}",
    )
    assert len(lines) == 5


def test_a_currency_is_a_short_word():
    for currency in ("E" * 17, " EUR", "E\nR", 3):
        (line,) = mistakes(currency=currency)
        assert line.startswith("currency = ")
    assert load_config(minimal(currency="€")).currency == "€"


def test_one_machine_or_all_are_chosen():
    machines = {"epyc": NodeKind(), "xeon": NodeKind()}
    assert choose_machines(machines, None) == ("epyc", "xeon")
    assert choose_machines(machines, "xeon") == ("xeon",)
    assert choose_machines({}, None) == ()


@pytest.mark.parametrize("choice", ["xeno", 3, ["epyc"], False, "../x"])
def test_another_choice_is_an_error(choice):
    with pytest.raises(ConfigError, match="is no machine of the config; allowed: epyc, xeon"):
        choose_machines({"epyc": NodeKind(), "xeon": NodeKind()}, choice)


def test_a_choice_without_machines_is_an_error():
    with pytest.raises(ConfigError, match="the config names none"):
        choose_machines({}, "epyc")


def test_the_documentation_has_every_key():
    table = machines_table()
    for name in NodeKind.model_fields:
        assert f"`machines.<name>.{name}`" in table
