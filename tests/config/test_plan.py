"""The plan: which launches, under which names, in which order, and what they will take."""

import os
import re
import sys

import pytest

from configs import ROOT, config, minimal
from jobs import planned
from scaling_study import cli
from scaling_study.config import launches
from scaling_study.config.estimate import Estimate, chosen_counts, describe
from scaling_study.config.launches import launch_id
from scaling_study.config.plan import Plan, priority, read_plan
from scaling_study.launch.axes.axis_table import AXES, DEFAULTS

pytestmark = pytest.mark.usefixtures("config_folder")


def plan(**sections):
    return planned(minimal(**sections))


def arms(made):
    return [(launch.label, launch.role) for launch in made.launches]


def test_nothing_asked_for_is_the_default_and_its_repeat():
    made = plan()
    assert arms(made) == [("default", "default"), ("default (repeat)", "repeat")]
    assert made.default == made.baseline == "default-44136f"
    assert made.repeat == "default-44136f-repeat"
    assert [dict(launch.axes) for launch in made.launches] == [dict(DEFAULTS)] * 2


def test_launches_that_meet_merge_under_the_first_arm_and_exclude_drops_from_every_arm():
    made = plan(
        launches={
            "baseline": {"intra_op": 1},
            "one_change": {"intra_op": ["default", 1, 2], "isa": ["avx2"]},
            "grid": {"intra_op": [1, 2], "isa": ["default", "avx2"]},
            "include": [{"isa": "avx512"}, {"isa": "avx2", "inter_op": 2}],
            "exclude": [{"isa": "avx2", "intra_op": 1}],
        }
    )
    assert arms(made) == [
        ("default", "default"),
        ("intra_op 1", "baseline"),
        ("intra_op 1 (repeat)", "repeat"),
        ("intra_op 2", "one_change"),
        ("intra_op 2, isa avx2", "grid"),
        ("intra_op 1, isa avx512", "grid"),
    ]
    assert [made.default, made.baseline, made.repeat] == [one.id for one in made.launches[:3]]
    assert made.launches[1].axes == made.launches[2].axes == {**DEFAULTS, "intra_op": 1}
    reason = "excluded by launches.exclude[0] (isa avx2, intra_op 1)"
    assert [(dropped.label, dropped.reason) for dropped in made.dropped] == [
        ("intra_op 1, isa avx2", reason),
        ("intra_op 1, inter_op 2, isa avx2", reason),
    ]


def test_ids_are_what_they_always_were():
    """A changed id would orphan all that was measured under the old one."""
    axes = {**DEFAULTS, "intra_op": 1}
    assert launch_id(axes) == "intra_op-1-d88425"
    assert launch_id({**axes, "wait_policy": "passive"}) == "intra_op-1.wait_policy-passive-bc45a0"
    assert (
        launch_id({**DEFAULTS, "blas": "/opt/a b/libx.so"}) == "blas-_opt_a_b_libx.so-7ffa9c3257b3"
    )


def test_a_new_axis_changes_no_id(monkeypatch):
    axes = {**DEFAULTS, "intra_op": 1, "placement": ("0-1", "2")}
    before = launch_id(axes)
    monkeypatch.setattr(launches, "AXES", {"new": AXES["isa"], **AXES})
    defaults = {"new": "off", **DEFAULTS}
    assert launch_id({"new": "off", **axes}, defaults) == before
    assert launch_id({"new": "on", **axes}, defaults) != before


def test_ids_are_short_and_name_one_launch_each():
    paths = [f"/opt/a very long folder name/number {i}/lib/libsomething.so" for i in range(300)]
    many = [{**DEFAULTS, "blas": path, "allocator": path} for path in paths]
    every_axis = {name: list(axis.words)[-1] for name, axis in AXES.items()}
    many += [{**every_axis, "intra_op": n, "placement": ("0-1,4", str(n))} for n in range(1, 300)]
    ids = [launch_id(axes) for axes in many]
    assert len(set(ids)) == len(many)
    for name in ids:
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name)
        assert len(name + launches.REPEAT_SUFFIX) <= 80


@pytest.mark.parametrize(
    ("build", "others", "name"),
    [
        ("/opt/torch24/bin/python", ["/opt/torch25/bin/python"], "torch24"),
        ("/a/p/.venv/bin/python", ["/b/q/.venv/bin/python"], "p/.venv"),
        ("/a/p/.venv/bin/python", ["/b/p/.venv/bin/python"], "/a/p/.venv/bin/python"),
        ("envs/old torch.txt", [], "envs/old torch.txt"),
    ],
)
def test_an_environment_is_named_by_its_folder_where_that_is_its_own(build, others, name):
    axes = {**DEFAULTS, "build": build}
    assert launches.label(axes, builds=["default", build, *others]) == f"build {name}"


def test_a_plan_of_another_version_is_refused():
    stored = {**plan().to_dict(), "schema_version": 99}
    with pytest.raises(ValueError, match="version 99"):
        Plan.from_dict(stored)


def blocks(seed):
    """The launches of each replicate, first to last as they are measured."""
    made = plan(launches={"one_change": {"intra_op": list(range(1, 40))}}, seed=seed)
    jobs = [(launch, index) for index in range(made.replicates) for launch in made.launches]
    ordered = sorted(jobs, key=lambda job: priority(made, *job), reverse=True)
    assert [index for _, index in ordered] == sorted(index for _, index in jobs)
    ids = [launch.id for launch, _ in ordered]
    return [ids[at : at + len(made.launches)] for at in range(0, len(ids), len(made.launches))]


def test_every_replicate_has_its_own_order_and_the_default_launch_comes_first_of_all():
    """The default launch decides whether the script runs."""
    found = [blocks(seed) for seed in range(9)]
    orders = {tuple(order) for made in found for order in made}
    assert len(orders) == 9 * 3
    assert len({frozenset(order) for order in orders}) == 1
    assert blocks(1) == found[1]
    assert {block[0] for block, *_ in found} == {plan().default}
    assert len({block[0] for _, *others in found for block in others}) > 1


def test_estimate_counts_cohorts_windows_and_minutes():
    measure = {"replicates": 2, "windows": 3, "window_s": [2.0, 4.0]}
    nothing = {"profile": "off", "why": "off", "confirm": "off"}
    made = plan(launches={"baseline": {"intra_op": 1}}, measure=measure, **nothing)
    forecast = Estimate(made, (1, 2))
    assert (forecast.cohorts, forecast.windows, forecast.profiles) == (6, 36, 0)
    assert forecast.whole_s == forecast.stages_s["measure"] == (48 + 72, 48 + 144)
    alone = plan(launches={"baseline": {"intra_op": 1}}, measure={**measure, "isolated": True})
    assert Estimate(alone, (1, 2)).cohorts == 12
    assert Estimate(alone, (1, 2)).windows == 36


@pytest.mark.parametrize(
    ("asked", "chosen"), [("ends", [1, 8]), ([2, 8, 8], [2, 8]), ([3], []), ([], [])]
)
def test_profiled_counts_are_the_ends_or_those_asked_for_that_there_are(asked, chosen):
    assert chosen_counts(asked, [1, 2, 4, 8]) == chosen


def test_description_says_what_will_be_done():
    made = planned(config())
    made = made.model_copy(update={"launches": made.launches[:4]})
    text = describe(made, (1, 2, 4))
    for said in (
        "Study full.study_1-a: my scripts/train é 'x'.py\n",
        "4 launches: 1 default, 1 baseline, 1 repeat, 1 one_change; 2 excluded\n",
        "36 cohorts (3 replicates of each launch), 108 windows; profiles of 6 points\n",
        "4.0 minutes of all",
        "27.4 to 103.5 minutes of all",
        "\n  0.7 to 2.2 hours",
    ):
        assert said in text


def check(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["scaling_study", "check", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


def test_check_shows_the_first_command_line_and_what_is_measured_nowhere(
    monkeypatch, capsys, tmp_path
):
    config = tmp_path / "config.yaml"
    config.write_text(
        f"study: s\nworkload:\n  script: {ROOT}/tests/workloads/plain_loop.py\n"
        "  args: [--rate, 3.10, 'a b', '{member}']\n"
        "processes: [1]\nprofile: {processes: [64]}\n"
    )
    assert check(monkeypatch, config) == 0
    said = capsys.readouterr().out
    assert said.endswith("plain_loop.py --rate 3.10 'a b' 0\n")
    assert "no count in profile.processes is measured, so nothing is profiled" in said
    none = "the config names no other launch, so none is looked for"
    assert none in said
    config.write_text(f"{config.read_text()}launches: {{baseline: {{intra_op: 1}}}}\n")
    assert check(monkeypatch, config) == 0
    assert none not in capsys.readouterr().out


@pytest.mark.parametrize(("job", "how"), [("", "taskset --cpu-list"), ("7", "srun --cpus-per")])
def test_check_says_that_the_shell_has_few_cpus(monkeypatch, capsys, job, how):
    mask = os.sched_getaffinity(0)
    if len(mask) == 1:
        pytest.skip("one CPU")
    monkeypatch.setenv("SLURM_JOB_ID", job) if job else monkeypatch.delenv("SLURM_JOB_ID", False)
    os.sched_setaffinity(0, {min(mask)})
    try:
        assert check(monkeypatch, ROOT / "config/quick.yaml") == 0
    finally:
        os.sched_setaffinity(0, mask)
    said = capsys.readouterr().out
    assert "this shell may use 1 of " in said
    assert how in said


def test_check_writes_the_plan_or_shows_all_mistakes(monkeypatch, capsys, tmp_path):
    quick, mistaken = ROOT / "config/quick.yaml", tmp_path / "config.yaml"
    output = tmp_path / "made folder" / "plan.json"
    assert check(monkeypatch, quick, output) == 0
    assert read_plan(output) == planned(config(quick))
    assert capsys.readouterr().out.startswith("Study quick: ")
    mistaken.write_text("study: a/b\nworkload: {script: path/to/train.py}\nsed: 1\n")
    assert check(monkeypatch, mistaken, tmp_path / "plan.json") == 2
    lines = capsys.readouterr().err.splitlines()
    told = [f"{mistaken}, line 1: study", f"{mistaken}, line 3: sed"]
    assert [line.split(" = ")[0] for line in lines] == told
    assert not (tmp_path / "plan.json").exists()


def test_profiled_launches_are_named_by_role_label_or_id():
    made = plan(
        launches={"baseline": {"intra_op": 1}, "one_change": {"wait_policy": ["passive"]}},
        profile={"launches": ["default", "recommended", "intra_op 1, wait_policy passive"]},
    )
    passive = next(item for item in made.launches if "passive" in item.label)
    assert [*made.profiled] == [made.default, "recommended", passive.id]
    assert set(plan().profiled) == {plan().default, "recommended"}  # the baseline is the default
