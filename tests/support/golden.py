"""Six made-up studies, one of each kind that a report has, with files of their visible text.

python tests/support/golden.py      renew tests/data/golden/*.txt
"""

import dataclasses
import re
import sys
import tempfile
from pathlib import Path

import browser
import rendering
import synthetic
import synthetic_causes
import synthetic_machines
from scaling_study.records.codec import read_file, write_file

GOLDEN = Path(__file__).parents[1] / "data/golden"
FOLDER = "results/golden"


def plain(folder):
    """A recommendation with experiments on causes."""
    study = rendering.make_study(folder)
    machine = rendering.machine_entry(study, "recommendation")["machine"]
    targets = (synthetic_causes.target(), synthetic_causes.single_process_only())
    write_file(study / "analysis/causes.json", synthetic_causes.causes(machine, *targets))
    write_file(study / "microbenchmarks.json", synthetic_causes.microbenchmarks(machine))
    return rendering.render(study)


def nothing(folder):
    """No launch has a valid window."""
    launches = [dataclasses.replace(one, ending="failed") for one in synthetic.LAUNCHES[:3]]
    return rendering.render(rendering.make_study(folder, launches=launches))


def one_model(folder):
    """One model soonest."""
    return rendering.render(rendering.make_study(folder, objective="one_model"))


def data_loader(folder):
    """What the data loader costs."""
    study = rendering.make_study(folder, ns=(1, 2, 4))
    plan = read_file(study / "plan.json", object) | {"data_loader": "quick"}
    write_file(study / "plan.json", plan)
    machine = rendering.machine_entry(study, "recommendation")["machine"]
    write_file(study / "analysis/data_loader.json", {"machines": [{"machine": machine, **LOADER}]})
    return rendering.render(study)


def machines(folder):
    """Two machines."""
    plan = synthetic_machines.measure(folder, "big", 2.0, "a")
    synthetic_machines.measure(folder, "small", 1.0, "b")
    synthetic_machines.compared(folder, plan, big={}, small={})
    return synthetic_machines.render(folder)


def imported(folder):
    """Saved tables of torch's profiler."""
    saved = Path(__file__).parents[2] / "config/tables"
    texts = {n: (saved / f"tsmixerx-{n}.txt").read_text(encoding="utf-8") for n in (4, 32, 64)}
    return rendering.make_imported(folder, texts)


def recorded(folder):
    """A real study, recorded once: only its length is looked at."""
    return rendering.render(rendering.remake_recorded(folder)[1], "searched.json")


def _estimate(value, spread=0.02):
    return {"value": value, "low": value - spread, "high": value + spread}


LOADER = {
    "label": "default", "n": 2,
    "cached": {"cached_bytes": 2**20, "copied": False},
    "variants": [
        {"variant": "as_is", "step_s": _estimate(0.014), "cpu_s": 0.02, "per_s": 143.0},
        {"variant": "cached", "step_s": _estimate(0.008), "cpu_s": 0.01, "per_s": 250.0},
    ],
    "parts": [
        {"part": "waiting", "s": 0.004, "share": _estimate(0.29)},
        {"part": "training", "s": 0.008, "share": _estimate(0.57)},
        {"part": "interference", "s": 0.002, "share": _estimate(0.14)},
    ],
    "most": {"loader": 200.0, "training": 250.0},
    "ways": [
        {"name": "", "title": "as it is", "loader_s": 0.009, "predicted_s": 0.014,
         "measured_s": 0.014, "gain": _estimate(1.0, 0.0)},
        {"name": "workers-2", "title": "2 workers", "axes": {"loader_workers": 2},
         "loader_s": 0.004, "predicted_s": 0.009, "measured_s": 0.010, "gain": _estimate(1.4)},
    ],
    "disk_bytes_per_s": {"as_is": 0.0},
}  # fmt: skip

STUDIES = {
    one.__name__: one for one in (plain, nothing, one_model, data_loader, machines, imported)
}


def visible(page, path):
    """Return the text that a reader sees before anything is unfolded, a line for each line."""
    page.open(path)
    text = page.run("document.body.innerText")
    text = text.replace(str(path.parent), FOLDER)
    return re.sub(r"\n\s*\n+", "\n", text).strip() + "\n"


def main():
    """Write the files of all studies anew, or of those that are named."""
    GOLDEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as base, browser.browse() as page:
        for name in sys.argv[1:] or STUDIES:
            folder = Path(base) / name
            folder.mkdir()
            (GOLDEN / f"{name}.txt").write_text(
                visible(page, STUDIES[name](folder)), encoding="utf-8"
            )


if __name__ == "__main__":
    sys.exit(main())
