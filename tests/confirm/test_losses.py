"""Whether the loss of a launch that computes with other numbers falls as the baseline's does."""

import json
import sys

import pytest

import jobs
from processes import captured
from scaling_study.confirm import losses
from scaling_study.host import probe
from scaling_study.records.analysis import Changed, Recommendation, Recommended
from scaling_study.runner import resolve

TRAIN = """
import sys, torch
torch.manual_seed(3)
weight = torch.nn.Parameter(torch.randn(8))
optimizer = torch.optim.SGD([weight], lr=0.01)
for _ in range(int(sys.argv[1])):
    optimizer.zero_grad()
    (weight ** 2).sum().backward()
    optimizer.step()
print("ended")
"""


def run(folder, count, seed=0, steps=1000):
    script, file = folder / "train.py", folder / "losses.json"
    script.write_text(TRAIN)
    own = [file, str(count), str(seed), "[]"]
    words = ["-m", "scaling_study.member.losses", *own, script, str(steps)]
    done = captured([sys.executable, *words], cwd=folder)
    return done, json.loads(file.read_text()) if file.exists() else None


@pytest.mark.parametrize(("asked", "found", "printed"), [(5, 5, ""), (50, 7, "ended\n")])
def test_losses_are_written_after_so_many_steps_or_at_the_scripts_end(
    tmp_path, asked, found, printed
):
    done, written = run(tmp_path, asked, steps=7)
    assert (done.returncode, done.stdout) == (0, printed)
    assert len(written["losses"]) == found
    assert written["losses"] == sorted(written["losses"], reverse=True)


def test_a_seed_moves_the_scripts_own(tmp_path):
    runs = [run(tmp_path, 2, seed)[1]["losses"] for seed in "012"]
    assert runs[0] == run(tmp_path, 2)[1]["losses"]
    assert len({tuple(one) for one in runs}) == 3


# ---- which launches


def plan(*launches):
    content = jobs.config(jobs.WORKLOADS / "plain_loop.py", args=["--batch-size", "{batch_size}"])
    content["workload"] |= {"parameters": {"batch_size": 64}, "samples_per_step": "batch_size"}
    content["launches"]["include"] = [*launches]
    made = jobs.planned(content)
    return made, made.by_id


def entry(launches, label, changed=None, what=()):
    ids = {one.label: one.id for one in launches.values()}
    other = changed and Changed(launch=ids[changed], label=changed, n=1, what=dict.fromkeys(what))
    best = Recommended(launch=ids[label], label=label, n=1)
    return Recommendation(status="ok", recommended=best, changed=other)


def test_finalists_with_other_numbers_on_the_same_samples_are_compared():
    coarse, large = {"autocast": "bf16"}, {"batch_size": 128}
    others = {"optimizer_kernel": "fused"}, {"allocator": "mimalloc"}
    made, known = plan(coarse, large, coarse | large, *others)
    base = known[made.baseline].axes

    def compared(*arguments):
        found = losses.to_compare(entry(known, *arguments), base, known)
        return [known[one].label for one in found]

    one = "intra_op 1, "
    assert compared(one + "allocator mimalloc") == []
    assert compared(one + "optimizer_kernel fused") == [one + "optimizer_kernel fused"]
    assert compared("intra_op 1", one + "autocast bf16", ["autocast"]) == [one + "autocast bf16"]
    assert compared("intra_op 1", one + "batch_size 128", ["batch_size"]) == []
    both = one + "autocast bf16, batch_size 128"
    assert compared("intra_op 1", both, ["autocast", "batch_size"]) == []


# ---- real runs


@pytest.fixture
def resolved(tmp_path):
    """A launch of a script, by the change that it makes of a baseline of one thread."""

    def make(script, **changes):
        plan = jobs.planned(jobs.config(script, args=["100"], launch=changes))
        axes = plan.by_id[plan.baseline].axes
        return resolve.resolve(plan, axes, probe.read_machine(), tmp_path, [1])

    return make


# Weights so small that they are denormal numbers: flushed, nothing is trained.
DENORMAL = """
import torch
weight = torch.nn.Parameter(torch.full((8,), 1e-39))
optimizer = torch.optim.SGD([weight], lr=1e-39)
for _ in range(100):
    optimizer.zero_grad()
    loss = 1 - (weight * 1e38).sum() * 1e-1
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("text", "change", "alike"),
    [(TRAIN, {"optimizer_kernel": "fused"}, True), (DENORMAL, {"denormals": "flush"}, False)],
)
def test_numbers_that_are_too_coarse_are_found(tmp_path, resolved, text, change, alike):
    script = tmp_path / "train.py"
    script.write_text(text)
    found = losses.compare(
        "it", resolved(script), resolved(script, **change), 20, tmp_path, at_once=2
    )
    assert (found.status, found.alike) == ("ok", alike)
    assert len(found.losses) == len(found.baseline) == losses.SEEDS


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("raise SystemExit('no data')", "ended with status 1: no data"),
        (("import torch\nx = torch.ones(2, requires_grad=True)\n"
         "(x * 2).backward(torch.ones(2))"), "calls backward on no single number"),
    ],
)  # fmt: skip
def test_a_run_that_gives_no_loss_says_why(tmp_path, resolved, text, reason):
    script = tmp_path / "train.py"
    script.write_text(text)
    with pytest.raises(losses.RunError, match=reason):
        losses.compare("it", resolved(script), resolved(script), 5, tmp_path, at_once=6)
