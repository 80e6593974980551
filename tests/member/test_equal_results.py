"""A forked model ends with the weights of a fresh one, in whatever is trained with."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from servers import Server

ROOT = Path(__file__).parents[2]

WEIGHTS = """
import hashlib, os, runpy, sys
from torch.optim.optimizer import register_optimizer_step_post_hook

trained = {}
register_optimizer_step_post_hook(lambda optimizer, *_: trained.update(last=optimizer))
del sys.argv[0]
sys.path.insert(0, os.path.dirname(sys.argv[0]))  # size.py is there
runpy.run_path(sys.argv[0], run_name="__main__")
digest = hashlib.sha256()
for group in trained["last"].param_groups:
    for parameter in group["params"]:
        digest.update(parameter.detach().numpy().tobytes())
print("weights", digest.hexdigest())
"""

SEEDED = {
    "torch": ["scripts/workloads/ncf.py", "--rows", "2000", "--epochs", "1", "--seed", "3"],
    "neuralforecast": ["scripts/workloads/tsmixerx.py", "--steps", "5", "--seed", "3"],
    "pytorch_lightning": ["tests/workloads/lightning_fit.py", "--steps", "20", "--seed", "3"],
    "transformers": ["tests/workloads/trainer_fit.py", "--steps", "5"],
}


def weights(said):
    return said.splitlines()[-1].split()[1]


@pytest.mark.parametrize("library", SEEDED)
def test_the_same_seed_gives_the_same_weights(tmp_path, library):
    script, *arguments = SEEDED[library]
    words = [str(ROOT / script), *arguments]
    # What comes after a change of a variable would be left to the models.
    env = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    # With several threads, a busy machine may add numbers in another order.
    env["OMP_NUM_THREADS"] = "1"
    with Server(tmp_path, WEIGHTS, **env) as server:
        forked = [server.train(*words) for _ in range(3)]
    modules, left = server.learnt()
    assert library in modules, left
    assert [status for status, _ in forked] == [0, 0, 0], forked
    fresh = subprocess.check_output(
        [sys.executable, "train.py", *words], cwd=tmp_path, text=True, env={**os.environ, **env}
    )
    assert {weights(said) for _, said in forked} == {weights(fresh)}
