"""Recommendations from tables that are made up."""

import synthetic
from made_records import kept
from scaling_study.analysis.points import joint
from scaling_study.analysis.recommend import candidates, recommend
from scaling_study.records.analysis import FrontPoint

DEFAULT = synthetic.Launch({}, "default", synthetic.hard_saturation(40.0, 60.0))


BASELINE = synthetic.Launch({"intra_op": 1}, "baseline", synthetic.hard_saturation(50.0, 150.0))


def measured(folder, *launches, **options):
    """A made-up study's candidates, what was collected of it, and its plan."""
    options = {"noise": synthetic.QUIET, **options}
    plan, found = synthetic.collected(folder, launches=launches, **options)
    return candidates(found.points, found.cohorts.cohorts), found, plan


def recommended(folder, *launches, **options):
    points, found, plan = measured(folder, *launches, **options)
    cohorts = found.cohorts.cohorts
    drawn = joint(found.replicates, cohorts, plan.steps_per_model, plan.seed)
    return kept(recommend(points, drawn, cohorts, plan))


def points(*pairs):
    return [
        FrontPoint(label="a", n=at, time_s=time_s, rate=rate)
        for at, (time_s, rate) in enumerate(pairs)
    ]
