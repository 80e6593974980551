"""What a race will find time for, on captured machines, by a simulated clock."""

import pytest

import jobs
import machines
from configs import ROOT
from scaling_study.config.config_file import read_config
from scaling_study.search import forecast

LARGE = [name for name in machines.NAMES if len(machines.usable(name).cpus) >= 96]


def shipped(name, **changes):
    mapping = read_config(ROOT / f"config/{name}.yaml")
    return jobs.planned({**mapping, **changes})


@pytest.mark.parametrize("name", ["tsmixerx", "ncf"])
@pytest.mark.parametrize("machine", LARGE)
def test_the_full_size_studies_try_each_launch_and_end_within_the_hour(name, machine):
    plan = shipped(name)
    found = forecast.play(plan, machines.usable(machine), None, plan.measure.longest_s)
    assert found.all_s + plan.confirm.seconds <= 3600
    assert found.screened == found.others
    assert found.screened_s < found.all_s


@pytest.mark.parametrize(
    ("name", "minutes", "machine", "said"),
    [
        ("tsmixerx", 20, "epyc-9654-2s-nps4", "further launches; the report names the rest"),
        ("quick", 10, "vm-hybrid", "each launch has been measured once after "),
    ],
)
def test_it_says_whether_the_time_is_enough_for_all_launches(name, minutes, machine, said):
    plan = shipped(name, search={"budget_minutes": minutes})
    first, second = forecast.describe(plan, machines.usable(machine), None)
    assert f"a race of {minutes} minutes, the confirmation included" in first
    assert said in second
