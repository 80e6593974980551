"""The report's section on the data loader, in a browser."""

import dataclasses

import pandas as pd

import rendering
from scaling_study.common.storage import read_json, write_json
from scaling_study.diagnosis.loader_verdict import feed
from test_feed_parts import beside, looks, run


def report(folder, **changed):
    """A report whose feed was watched, with work beside training."""
    one = run()
    kinds = [beside("neighbour_threads", 0.5), beside("neighbour_processes", 0.0)]
    windows = pd.concat([one.windows, *kinds])
    found = feed([dataclasses.replace(one, windows=windows, use=looks(disk_bytes=2**20))])
    study = rendering.make_study(folder)
    write_json(study / "plan.json", read_json(study / "plan.json") | {"feed": "full"})
    known = read_json(study / "analysis/provenance.json")["machines"][0]["machine"]
    write_json(study / "analysis/feed.json", {"machines": [found | {"machine": known} | changed]})
    return rendering.render(study)


def test_what_a_script_says_is_text(tmp_path):
    reason = "</div><script>alert(1)</script>'"
    left = [{"variant": "beside", "title": "<b>beside</b>", "reason": reason}]
    html = report(tmp_path / "study", left_out=left).read_text()
    assert "<b>beside" not in html
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert" in html
