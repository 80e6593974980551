import pytest

import synthetic
import synthetic_profiles
from scaling_study import stages
from scaling_study.common.tables import read_table
from scaling_study.profiling import profiles
from scaling_study.profiling.profiles import operator_rows
from scaling_study.records.codec import read_file
from scaling_study.records.columns import OPERATORS
from scaling_study.records.profile import Operators, OperatorSums, Profiled


@pytest.fixture
def folders(tmp_path):
    return synthetic_profiles.write_study(tmp_path)


def test_all_points_are_gathered(folders):
    manifests, operators = profiles.read_profiles(reversed(folders))
    assert [one.role for one in manifests] == ["default", "baseline", "one_change"]
    assert manifests[-1].target == "recommended"
    assert set(zip(operators["role"], operators["n"], strict=True)) == {
        (role, n) for role in ("default", "baseline", "one_change") for n in (1, 8)
    }
    assert len(operators) == 6 * len(synthetic_profiles.OPERATORS)
    assert operators.loc[operators["n"] == 1, "overhead"].eq(1.22).all()


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


# ---- operators per step and call

WHERE = {"machine": "m", "launch": "l", "label": "L", "role": "grid", "n": 4, "overhead": 1.05}


def row(**values):
    usual = {"operator": "aten::mm", "phase": "forward", "calls": 10, "self_s": 2.0,
             "total_s": 3.0, "flops": 50}  # fmt: skip
    return OperatorSums(**usual | values)


def test_sums_become_times_per_step_and_per_call_of_an_operator_and_phase():
    rows = row(), row(calls=30), row(phase="backward")
    frame = operator_rows(Operators(steps=10, rows=rows), **WHERE)
    assert frame.columns.tolist() == OPERATORS.names
    assert frame["phase"].tolist() == ["forward", "backward"]
    found = frame.to_dict("records")[0]
    assert found == {
        **WHERE, "operator": "aten::mm", "group": "matrix multiply", "phase": "forward",
        "steps": 10, "calls_per_step": 4, "flops_per_step": 10,
        "self_s_per_step": pytest.approx(0.4), "total_s_per_step": pytest.approx(0.6),
        "self_s_per_call": pytest.approx(0.1), "total_s_per_call": pytest.approx(0.15),
    }  # fmt: skip


def test_a_profile_of_no_step_is_an_error():
    with pytest.raises(ValueError, match="no step"):
        operator_rows(Operators(steps=0, rows=(row(),)), **WHERE)
