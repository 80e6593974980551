import pytest

import synthetic
import synthetic_profiles
from scaling_study.profiling import profiles
from scaling_study.profiling.profiles import operator_rows
from scaling_study.records.codec import read_file
from scaling_study.records.columns import OPERATORS
from scaling_study.records.profile import Operators, Profiled
from scaling_study.records.tables import read_table
from scaling_study.study import stages


@pytest.fixture
def folders(tmp_path):
    return synthetic_profiles.write_study(tmp_path)


def test_a_launch_that_two_targets_share_is_read_once(tmp_path):
    machine, launch = synthetic.machine(), synthetic.LAUNCHES[1]
    folders = [
        synthetic_profiles.write_target(tmp_path, launch, machine),
        synthetic_profiles.write_target(tmp_path, launch, machine, target="recommended"),
    ]
    _, operators = profiles.read_profiles(folders)
    assert len(operators) == 2 * len(synthetic_profiles.OPERATORS)


@pytest.mark.parametrize("content", ["", "{}", '{"schema_version": 99}'])
def test_a_broken_manifest_is_named(folders, content):
    (folders[0] / "profile.json").write_text(content)
    with pytest.raises(profiles.ProfileError, match=f"{folders[0]}/profile.json"):
        profiles.read_profiles(folders)


def test_pairs_are_the_ends_of_each_launch_and_the_default_against_the_recommended():
    def profiled(role, target, launch):
        return Profiled(
            schema_version=3, machine="m", status="complete", role=role, target=target,
            launch=launch,
        )  # fmt: skip

    manifests = [profiled("default", "d", "d"), profiled("grid", "recommended", "r")]
    found = {"d": {1: "d1", 4: "d4", 8: "d8"}, "r": {1: "r1", 4: "r4"}, "x": {4: "x4"}}
    assert profiles.choose_pairs(manifests, found) == [
        ("counts", "d1", "d8"),
        ("counts", "r1", "r4"),
        ("launches", "d4", "r4"),
    ]
    same = [manifests[0], profiled("default", "recommended", "d")]
    assert profiles.choose_pairs(same, {"d": {1: "d1"}}) == []
    assert profiles.choose_pairs([], {}) == []


def test_the_stage_writes_the_tables_and_the_comparison(folders, tmp_path):
    stages.compare_profiles(tmp_path, folders)
    table = read_table(tmp_path / "tables", OPERATORS)
    assert len(table) == 6 * len(synthetic_profiles.OPERATORS)
    assert (tmp_path / "tables/operators.csv").exists()
    (machine,) = read_file(tmp_path / "analysis/inflation.json", object)["machines"]
    assert [one["kind"] for one in machine["comparisons"]] == ["counts"] * 3 + ["launches"]


def test_a_profile_of_no_step_is_an_error():
    with pytest.raises(ValueError, match="no step"):
        operator_rows(Operators(steps=0, rows=()), overhead=None, label="L", n=4)
