"""Today's launch: what makes it, where it is planned, and what is said of it."""

import json

import pytest

import machines
import recommendations
import synthetic
from axis_values import TCMALLOC, prepare, read_back
from configs import minimal
from made_records import slot
from scaling_study.common.topology import Cpu, Node, Topology
from scaling_study.common.unavailable import UnavailableError
from scaling_study.config.config import load_config
from scaling_study.config.launches import HARMLESS, look
from scaling_study.config.plan import Plan, make_plan
from scaling_study.host import limits
from scaling_study.launch.axes import axis_table, shell
from scaling_study.launch.axes.axis_table import DEFAULTS
from scaling_study.member import readback
from scaling_study.search import rounds

PILED = ("OMP_PROC_BIND=close",)
TRIM = "MALLOC_TRIM_THRESHOLD_=65536"


@pytest.fixture(autouse=True)
def script(tmp_path, monkeypatch):
    (tmp_path / "path/to").mkdir(parents=True)
    (tmp_path / "path/to/train.py").touch()
    monkeypatch.chdir(tmp_path)


def plan(found=PILED, **sections):
    return make_plan(load_config(minimal(**sections)), found)


def arms(made):
    return [(launch.label, launch.role) for launch in made.launches]


def todays(made):
    (found,) = [launch.axes["shell"] for launch in made.launches if launch.id == made.today]
    return found


# ---- what is found


def test_what_changes_the_speed_of_training_is_found_and_nothing_else():
    found = look(
        {
            "OMP_PROC_BIND": "close",
            "KMP_AFFINITY": "fine,compact=1",
            "OMP_NUM_THREADS": "",
            "OPENAI_API_KEY": "x",
            "RANK": "3",
            "LD_PRELOAD": "/lib/a.so:/lib/b.so",
            "MKL_CBWR": "a\nb",
            "GOMP_SPINCOUNT": "\udc80",
            **dict.fromkeys(HARMLESS, "1"),
        }
    )
    known = ("KMP_AFFINITY=fine,compact=1", "LD_PRELOAD=/lib/a.so:/lib/b.so")
    assert found == (*known, "OMP_PROC_BIND=close")


OF_NO_AXIS = (
    *("OMP_DYNAMIC", "OMP_THREAD_LIMIT", "KMP_HW_SUBSET", "MKL_CBWR", "MKL_DEBUG_CPU_TYPE"),
    *("MALLOC_ARENA_MAX", "PYTHONMALLOC"),
)


def test_all_that_changes_how_fast_a_script_trains_is_found():
    groups = set(axis_table.AXES["ranks"].variables)
    owned = {name for axis in axis_table.AXES.values() for name in axis.variables} - groups
    wanted = {*owned, *OF_NO_AXIS}
    assert {one.partition("=")[0] for one in look(dict.fromkeys(wanted, "1"))} == wanted


def test_members_report_what_a_check_of_it_looks_for():
    assert all(prefix.startswith(readback.MATTERS) for prefix in shell.PREFIXES)


@pytest.mark.parametrize(
    ("policy", "found"),
    [
        ("interleave:0-1", ("mempolicy=interleave:0-1",)),
        ("bind:1", ("mempolicy=bind:1",)),
        ("bind=static:0", ()),
    ],
)
def test_a_memory_policy_is_found_where_a_member_can_be_given_it(policy, found):
    assert look({}, policy) == found


def test_a_processs_memory_policy_is_read(tmp_path):
    assert limits.read_memory_policy(tmp_path) == "default"
    line = "5648e35cc000 interleave:0-1 file=/usr/bin/python3 mapped=2 N0=2"
    machines.write(tmp_path, {"proc/self/numa_maps": f"{line}\n{line}"})
    assert limits.read_memory_policy(tmp_path) == "interleave:0-1"


@pytest.mark.parametrize(("mask", "said"), [("0-7", ""), ("2-3", "CPUs 2-3 of 0-7")])
def test_a_mask_that_confines_the_study_is_said(tmp_path, mask, said):
    status = f"Cpus_allowed_list:\t{mask}"
    files = {"proc/self/status": status, "sys/devices/system/cpu/online": "0-7"}
    found = limits.tell_confined(machines.write(tmp_path, files))
    assert said in found
    assert bool(found) == bool(said)


# ---- the config


@pytest.mark.parametrize(
    ("written", "found", "value"),
    [
        ("auto", PILED, PILED),
        ("off", PILED, None),
        ({}, PILED, None),
        (
            {"mempolicy": "interleave:0-1", "cpus": 0, "env": {"OMP_NUM_THREADS": 4, "KMP_A": "x"}},
            PILED,
            ("KMP_A=x", "OMP_NUM_THREADS=4", "cpus=0", "mempolicy=interleave:0-1"),
        ),
    ],
)
def test_the_config_decides_what_it_is(written, found, value):
    made = plan(found, launches={"today": written})
    assert (todays(made) if made.today else None) == value


def test_the_variables_of_the_workload_are_the_same_in_all_launches():
    workload = {"script": "path/to/train.py", "env": {"MALLOC_ARENA_MAX": "4"}}
    assert todays(plan((*PILED, "MALLOC_ARENA_MAX=1"), workload=workload)) == PILED
    assert plan(("MALLOC_ARENA_MAX=1",), workload=workload).today is None


# ---- the plan


def test_it_is_the_default_launch_with_that_one_difference():
    made = plan(launches={"baseline": {"intra_op": 1}, "one_change": {"isa": ["avx2"]}})
    assert arms(made) == [
        ("default", "default"),
        ("intra_op 1", "baseline"),
        ("intra_op 1 (repeat)", "repeat"),
        ("today", "today"),
        ("intra_op 1, isa avx2", "one_change"),
    ]
    today = next(launch for launch in made.launches if launch.id == made.today)
    assert today.axes == {**DEFAULTS, "shell": PILED}
    assert today.id.startswith("shell-OMP_PROC_BIND_close-")
    assert Plan.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    assert made.explained == {made.today: "today", "recommended": "recommended"}


def test_the_number_of_processes_alone_leaves_the_shell_as_it_is():
    made = plan(launches={"today": {"processes": 8}})
    assert (todays(made), made.today_processes) == (PILED, 8)
    made = plan(launches={"today": {"processes": 8, "env": {"OMP_NUM_THREADS": 3}}})
    assert (todays(made), made.today_processes) == (("OMP_NUM_THREADS=3",), 8)


def test_without_it_today_is_the_default_launch():
    made = plan(())
    assert made.today is None
    assert arms(made) == [("default", "default"), ("default (repeat)", "repeat")]
    assert list(made.explained) == [made.default, "recommended"]
    assert make_plan(load_config(minimal(why={"launches": ["default", "today"]}))).explained == {
        made.default: "default"
    }


def test_a_race_measures_it_first():
    made = plan(search={"budget_minutes": 60}, launches={"baseline": {"intra_op": 1}})
    topology = Topology((Cpu(0, 0, 0, 0, 0), Cpu(1, 1, 0, 0, 0)), (Node(0, 1 << 30, {0: 10}),))
    field = rounds.competing(made, topology, None)
    assert field.today.launch == made.today
    assert made.today in field.entrants
    assert made.today not in {one.launch for one in field.others}


# ---- what it does


def test_its_variables_are_set_and_what_an_axis_sets_replaces_them():
    value = (*PILED, "OMP_NUM_THREADS=2", "LD_PRELOAD=/lib/mine.so", "cpus=0")
    own = {"OMP_PROC_BIND": "close", "OMP_NUM_THREADS": "2", "LD_PRELOAD": "/lib/mine.so"}
    assert prepare(shell=value) == own
    other = prepare(shell=value, intra_op=1, allocator="tcmalloc")
    assert other["OMP_NUM_THREADS"] == "1"
    assert other["OMP_PROC_BIND"] == "close"
    assert other["LD_PRELOAD"] == TCMALLOC


TOPOLOGY = Topology(
    tuple(Cpu(number, number, 0, number // 2, 0) for number in range(4)),
    (Node(0, 1 << 30, {0: 10, 1: 20}), Node(1, 1 << 30, {0: 20, 1: 10})),
)


def test_its_mask_and_policy_are_every_slots_unless_an_axis_says_otherwise():
    asked = {"shell": ("cpus=0-1", "mempolicy=interleave:0-1")}
    for one in axis_table.place(asked, TOPOLOGY, 2):
        assert (one.cpus, one.policy) == ((0, 1), "interleave:0-1")
    placed = axis_table.place({**asked, "placement": "cores", "membind": "local"}, TOPOLOGY, 2)
    assert [slot.cpus for slot in placed] == [(0,), (1,)]
    assert {slot.policy for slot in placed} == {"bind:0"}


@pytest.mark.parametrize("value", ["cpus=7", "mempolicy=bind:3"])
def test_a_mask_or_policy_that_this_machine_has_not_is_said(value):
    with pytest.raises(UnavailableError, match="not there"):
        axis_table.place({"shell": (value,)}, TOPOLOGY, 1)


def test_an_axis_whose_variables_the_shell_sets_is_the_shells():
    axes = {"shell": (TRIM,)}
    got = read_back(env={"MALLOC_TRIM_THRESHOLD_": "65536"})
    rows = {row.axis: row for row in axis_table.checks(axes, [slot()], [got])}
    assert all(row.ok for row in rows.values())
    assert rows["allocator"].requested == "what the shell says"
    assert rows["shell"].effective == TRIM
    without = axis_table.checks({}, [slot()], [got])
    assert "allocator" in axis_table.failed(without)


# ---- what is analysed


def test_the_recommendation_is_compared_with_today_and_without_it_with_the_default(tmp_path):
    today = synthetic.Launch({"shell": PILED}, "today", synthetic.hard_saturation(20.0, 30.0))

    def with_today(plan):
        plan["today"] = today.id

    launches = (recommendations.DEFAULT, recommendations.BASELINE, today)
    found = recommendations.recommended(tmp_path / "a", *launches, change=with_today)
    assert (found.today.n, found.today.shell) == (2, [*PILED])
    assert found.today.at_n.n == found.recommended.n == 3
    assert found.ratio.value == pytest.approx(5, rel=0.03)
    assert found.default.launch == recommendations.DEFAULT.id
    lost = synthetic.Launch(today.values, "today", ending="failed")
    found = recommendations.recommended(tmp_path / "b", *launches[:2], lost, change=with_today)
    assert found.today is None
    assert found.ratio.value == pytest.approx(2.5, rel=0.03)
