import math

import synthetic
from scaling_study.report import report_rows


def ranked(launch, rate, **more):
    return {
        "launch": launch, "label": f"label of {launch}", "arm": "grid", "n": 2, "replicates": 3,
        "oversubscribed": False, "steps_per_s": rate, "low": 0.9 * rate, "high": 1.1 * rate,
        "models_per_hour": 10 * rate, "models_per_hour_low": 9 * rate,
        "models_per_hour_high": 11 * rate,
        "ratio_to_default": 2.0, "ratio_low": 1.9, "ratio_high": 2.1,
        "probability_best": 0.5, **more,
    }  # fmt: skip


def test_a_cell_sorts_by_its_number_and_a_missing_one_has_none():
    cell = report_rows.number_cell(1234.5, 1200.0, 1300.0)
    assert (cell.text, cell.value, cell.interval) == ("1,234", "1234.5", "1,200 to 1,300")
    for missing in (None, math.nan):
        assert report_rows.number_cell(missing).value == ""


def test_the_ranking_marks_roles_and_has_intervals_in_each_unit():
    rows = report_rows.ranking_rows(
        {
            "objective": "models_per_hour",
            "recommended": {"launch": "a"},
            "ranking": [
                ranked("a", 100.0, arm="baseline", oversubscribed=True),
                ranked("d", 50.0, arm="default", label="default", models_per_hour=None),
            ],
        }
    )
    assert rows[0]["role"] == "recommended"
    assert rows[0]["tags"] == ["recommended", "baseline", "oversubscribed"]
    assert rows[0]["models_per_hour"].interval == "900 to 1,100"
    assert rows[0]["ratio"].interval == "1.90 to 2.10"
    assert rows[1]["role"] == "default"
    assert rows[1]["tags"] == []
    assert rows[1]["models_per_hour"].value == ""
    assert rows[1]["ratio"].interval == ""


def test_a_launch_has_its_time_where_one_model_is_looked_for():
    found = {"recommended": None, "ranking": [ranked("a", 1.0)]}
    (row,) = report_rows.ranking_rows({**found, "objective": "model_s"})
    assert (row["time"].text, row["time"].interval) == ("12.0 minutes", "10.9 to 13.3")
    assert float(row["time"].value) == 720.0
    (row,) = report_rows.ranking_rows({**found, "objective": "models_per_hour"})
    assert row["time"].value == ""


def test_a_number_of_one_start_says_so_instead_of_an_interval():
    (row,) = report_rows.ranking_rows(
        {
            "objective": "model_s",
            "recommended": None,
            "ranking": [ranked("a", 100.0, arm="one_change", replicates=1)],
        }
    )
    for name in ("time", "models_per_hour", "steps_per_s", "ratio"):
        assert row[name].interval == "one start"
        assert row[name].value


def test_replicates_that_failed_alike_share_a_row():
    failures = [
        {"launch": "a", "replicate": number, "status": "failed", "reason": reason,
         "remedy": None, "log": log}
        for number, reason, log in [(0, "died", None), (1, "died", "tail"), (2, "hung", None)]
    ]  # fmt: skip
    rows = report_rows.failure_rows(failures, {"a": "label"})
    assert [(row["reason"], row["replicates"], row["log"]) for row in rows] == [
        ("died", "replicates 0, 1", "tail"),
        ("hung", "replicate 2", None),
    ]


def test_invalid_windows_are_added_up_by_reason_and_launch():
    windows = [
        {"launch": "a", "label": "a", "n": 2, "flag": "foreign_cpu", "count": 1},
        {"launch": "a", "label": "a", "n": 1, "flag": "foreign_cpu", "count": 2},
        {"launch": "a", "label": "a", "n": 1, "flag": "short_overlap", "count": 9},
    ]
    assert report_rows.invalid_rows(windows) == [
        {"flag": "short overlap", "label": "a", "n": "1", "count": 9},
        {"flag": "foreign cpu", "label": "a", "n": "1, 2", "count": 3},
    ]


def test_lost_points_are_named_by_launch():
    points = [{"launch": "a", "label": "a", "n": n} for n in (4, 8)]
    assert report_rows.lost_rows(points) == [("a", "n = 4, 8")]


def test_what_did_not_take_effect_comes_first():
    entries = [
        {"launch": name, "checks": [{"ok": True}, {"ok": name != "bad"}]}
        for name in ("other", "first", "bad")
    ]
    found = report_rows.attestation_groups(entries, ["first"])
    assert [entry["launch"] for entry in found] == ["bad", "first", "other"]


def test_members_at_the_same_place_share_a_row():
    slots = [
        {"slot": 0, "cpus": None, "policy": "default", "oversubscribed": False},
        {"slot": 1, "cpus": None, "policy": "default", "oversubscribed": False},
        {"slot": 2, "cpus": "0-3", "policy": "bind:0", "oversubscribed": True},
    ]
    assert report_rows.binding_facts(slots) == [
        ("members 0 to 1", "any CPU"),
        ("member 2", "CPU 0-3, memory bind:0, shared with another member"),
    ]


def test_the_environment_tells_what_is_unset_and_when_nothing_is_set():
    assert report_rows.environment_facts({"B": "1", "A": None}) == [
        ("A", "(not passed on)"),
        ("B", "1"),
    ]
    assert report_rows.environment_facts({}) == [("none", "nothing is set")]


def test_a_machine_is_described_with_what_limits_it():
    machine = {**synthetic.machine(), "quota_cpus": 2.5, "allowed_cpus": "0-3", "governor": None}
    assert report_rows.describe_size(machine) == "4 usable CPUs, a quota of 2.50, 64.0 GiB"
    facts = dict(report_rows.machine_facts(machine))
    assert facts["CPU quota"] == "2.50"
    assert facts["memory limit"] == "none"
    assert facts["frequency governor"] == "not readable"
    assert facts["automatic NUMA balancing"] == "no"
    assert all(text for text in facts.values())
