import os
import subprocess
import sys
import threading

import pytest

import rendering
import synthetic
from scaling_study.common import storage
from scaling_study.common.file_errors import UnusableError
from scaling_study.records.codec import read_file, write_file
from scaling_study.report.study import conclusion
from scaling_study.study.run import StudyLock


def test_who_holds_a_lock_is_named_by_the_number_that_it_writes_after_it_took_it(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (tmp_path / ".lock").write_text(str(ended.pid))
    with (tmp_path / ".lock").open("r+") as holder:
        assert storage.lock(holder)
        late = threading.Timer(0.2, lambda: (tmp_path / ".lock").write_text(str(os.getpid())))
        late.start()
        with pytest.raises(UnusableError, match=f"by process {os.getpid()}:"):
            StudyLock(tmp_path)
        late.join()


def test_forked_models_are_the_headline_and_the_default_of_the_launch_script(tmp_path):
    folder = rendering.make_study(tmp_path / "confirmed", ns=(1, 2), replicates=2)
    found = rendering.machine_entry(folder, "recommendation")
    best = found["recommended"]
    about = {"role": "recommended", "rounds": 3, "start_s": 5.7, "iteration_s": 0.0084,
             "end_s": 1.4, **{name: best[name] for name in ("launch", "label", "n")}}  # fmt: skip
    rates = {"fresh": 639.0, "forked": 1400.0}
    arms = [{**about, "start": start, "value": value} for start, value in rates.items()]
    modules = ["torch"]
    imports = {"kind": "imports", "modules": modules, "left": {"numexpr": "starts threads: python"},
               "seconds": {"tiny": 0.06, "torch": 1.9, "pandas": 0.5}}  # fmt: skip
    entry = {"machine": found["machine"], "status": "confirmed", "arms": arms, "start": "forked",
             "steps_per_model": 500, "imports": imports}  # fmt: skip
    write_file(folder / "analysis/confirmation.json", {"machines": [entry]})
    said = conclusion(folder, folder / "plan.json", folder / "report.html").splitlines()[0]
    assert said.endswith("(confirmed)")
    report = rendering.render(folder).read_text(encoding="utf-8")
    script = (folder / "launch/recommended.sh").read_text()
    assert "  start=forked\n" in script
    assert "# Measured: 1,400 models/hour, confirmed with forked starts\n" in script
    kept = folder / "launch/recommended.imports.json"
    assert f"--imports {kept}" in script
    assert read_file(kept, object)["modules"] == modules
    assert "recommended.sh --queue models.txt" in report
    for text in (
        "1,400 models/hour", "639", "numexpr starts threads",
        "A model in a fresh process takes 5.70 s to start, 4.20 s for 500 steps and 1.40 s to end.",
        "Its imports take 2.46 s, first torch 1.90 s, pandas 500 ms and tiny 60.0 ms.",
    ):  # fmt: skip
        assert text in report
    entry = {**entry, "start": "fresh", "imports": None}
    write_file(folder / "analysis/confirmation.json", {"machines": [entry]})
    assert "recommended.sh --queue" not in rendering.render(folder).read_text(encoding="utf-8")
    assert "  start=fresh\n" in (folder / "launch/recommended.sh").read_text()
    assert not kept.exists()


def test_files_that_members_share_are_a_warning_of_report_and_terminal(tmp_path):
    folder = rendering.make_study(tmp_path / "shared", ns=(1, 2), replicates=2)
    with rendering.edited(folder / "analysis/failures.json") as content:
        content["machines"][0]["shared_files"] = {"/runs/log.csv": 2, "/runs/<b>last.pt": 4}
    said = conclusion(folder, folder / "plan.json", folder / "report.html")
    start = "4 processes write /runs/{}last.pt (and 1 more files): each overwrites"
    assert f"  Warning: processes share a file: {start.format('<b>')}" in said
    assert 'such as args: ["--out", "runs/{member}"].' in said
    report = rendering.render(folder).read_text(encoding="utf-8")
    assert start.format("&lt;b&gt;") in report


def test_a_build_of_the_workflow_is_started_with_its_own_interpreter(tmp_path):
    folder = rendering.make_study(tmp_path / "a study", ns=(1, 2), replicates=2)
    with rendering.edited(folder / "analysis/recommendation.json") as content:
        best = content["machines"][0]["recommended"]
        best["axes"]["build"] = "envs/old torch.txt"
    rendering.render(folder)
    text = (folder / "launch/recommended.sh").read_text()
    assert f"{folder}/builds/old torch/bin/python" in text
    assert f"# Launch:   {best['label']}\n" in text
    assert "OMP_NUM_THREADS=1" in text


def test_further_machines_have_their_own_files(tmp_path):
    machines = [synthetic.machine(), synthetic.machine(name="other", cpus=4)]
    folder = rendering.make_study(tmp_path, machines=machines, ns=(1, 2), replicates=2)
    rendering.render(folder)
    other = machines[1]["hash"]
    assert {path.name for path in (folder / "launch").iterdir()} == {
        f"recommended{of}{suffix}" for of in ("", f"-{other}") for suffix in (".sh", ".sbatch")
    }
    assert (folder / f"figures/throughput-{other}.svg").exists()
