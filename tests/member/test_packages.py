"""A forked model sees what a fresh process sees, whatever package it uses."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

from servers import Server

# What a model notes of itself, by name: also the ids, flags and generators that modules keep.
REPORT = r"""
if __name__ == "__main__":
    filters = [*map(str, __import__("warnings").filters)]
    import atexit, gc, json, os, pickle, random, re, signal, sys, tempfile, threading, uuid
    class Own: pass
    mask = os.umask(0); os.umask(mask)
    hook, main, numpy, torch = sys.excepthook, *map(sys.modules.get, ("__main__", "numpy", "torch"))
    links = [f"/proc/self/fd/{fd}" for fd in sorted(map(int, os.listdir("/proc/self/fd")))]
    noted = {
        "environment": dict(os.environ), "exit handlers": atexit._ncallbacks(), "filters": filters,
        "signals": [signal.getsignal(number) for number in signal.valid_signals()],
        "place": (os.getcwd(), mask, sys.path, os.getpgid(0), os.getsid(0)),
        "words": (sys.argv, sys.orig_argv), "hook": (hook.__module__, hook.__qualname__),
        "threads": (threading.main_thread().native_id, [one.name for one in threading.enumerate()]),
        "files": sorted(re.sub(r"\[\d+\]", "", os.readlink(link)) for link in links[3:]
                        if os.path.exists(link)),
        "input": os.readlink(links[0]),
        "children": len(open("/proc/thread-self/children").read().split()),
        "main": (main.Own, pickle.loads(pickle.dumps(Own())).__class__ is Own),
        "settings": (sys.getrecursionlimit(), gc.get_threshold(), numpy and numpy.geterr(),
                     torch and (torch.get_num_threads(), torch.get_default_dtype())),
        "random": random.random(), "own": random.Random().random(), "id": uuid.uuid4(),
        "name": tempfile.mktemp(), "numpy": numpy and numpy.random.rand(),
        "rng": numpy and numpy.random.default_rng().random(), "torch": torch and torch.rand(2),
        **globals().get("drawn", {}),
    }
    def note(where, values, inner=True):
        for name, value in list(values.items()):
            kind, name = type(value), f"{where}.{name}"
            if (kind in (bool, uuid.UUID) or kind is int and value < 1 << 32  # no address
                    or kind is str and re.search(r"\d{3}|[0-9a-f]{8}", value[:200])):
                noted[name] = value
            elif kind is random.Random:
                noted[name] = value.getstate()
            elif inner and issubclass(kind, type) and value.__module__ == where:
                note(name, vars(value), inner=False)
    for name, module in list(sys.modules.items()):
        if name.strip("_") not in ("main", "mp_main"):
            note(name, vars(module))
    texts = {name: re.sub(r" at 0x\w+|\[\d+\]", "", repr(value)) for name, value in noted.items()}
    with open("noted.json", "w") as file:
        json.dump({**texts, "process id": str(os.getpid())}, file)
"""

QUICK = {
    "standard library": """
import asyncio, concurrent.futures, faulthandler, logging, multiprocessing, rich
logging.basicConfig(format="%(name)s %(message)s"); logging.warning("warned")
faulthandler.enable(); rich.print("[bold]text", asyncio.run(asyncio.sleep(0, "slept")))
if __name__ == "__main__":
    for kind in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(kind).Pool(1) as pool: print(pool.map(abs, [-1]))
    for pool in (concurrent.futures.ProcessPoolExecutor, concurrent.futures.ThreadPoolExecutor):
        with pool(1) as pool: print(pool.submit(abs, -1).result())""",
    "torch": "import torch; torch.nn.Linear(3, 1)(torch.ones(2, 3)).sum().backward()",
    "pyarrow": """
import pandas, pyarrow.parquet
pandas.DataFrame({"a": [1]}).to_parquet("table")
with pyarrow.parquet.ParquetFile("table") as file:  # its threads may keep an open one for a moment
    print(file.read())""",
    "sympy": """
import sympy; print(sympy.integrate(sympy.Symbol("x")))
drawn = {"sympy": sympy.core.random.rng.random()}""",
    "joblib": """
import joblib; print(joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(n) for n in (-1, -2)))""",
}
LARGE = {
    "scipy": """
import networkx, scipy.stats; print(networkx.shortest_path(networkx.path_graph(3), 0, 2))
drawn = {"scipy": scipy.stats.norm.rvs()}""",
    "matplotlib": """
import matplotlib; matplotlib.use("agg")
from matplotlib import pyplot; pyplot.plot([1, 2]); pyplot.savefig("figure.png")""",
    "distributed": """
import dask.array, distributed; print(dask.array.ones(3).sum().compute())
with distributed.Client(processes=False, dashboard_address=None) as client:
    print(client.submit(abs, -1).result())""",
    "optuna": """
import optuna; optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(); study.optimize(lambda trial: trial.suggest_float("x", 0, 1), 1)
drawn = {"optuna": study.best_params}""",
    "torch._dynamo": """
import torch._dynamo; print(torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2)))""",
    "torchdata": """
import safetensors.torch, spdl.pipeline, torch
from torchdata.stateful_dataloader import StatefulDataLoader
safetensors.torch.save_file({"a": torch.ones(1)}, "a"); print(safetensors.torch.load_file("a"))
drawn = {"order": list(StatefulDataLoader(range(99), shuffle=True))}
build = spdl.pipeline.PipelineBuilder().add_source([1, 2]).pipe(abs).add_sink(2).build
with (line := build(num_threads=1)).auto_stop(): print(list(line.get_iterator()))""",
    "pytorch_lightning": """
import logging, pytorch_lightning
logging.getLogger("pytorch_lightning").setLevel("ERROR")  # it prints one of several tips
pytorch_lightning.Trainer(max_steps=1, logger=False, enable_checkpointing=False)""",
    "neuralforecast": """
from neuralforecast.models import NLinear; print(NLinear(h=2, input_size=4, max_steps=1))""",
    "transformers": """
import accelerate; from transformers import BertConfig, BertModel, Trainer, TrainingArguments
shape = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
print(BertModel(BertConfig(vocab_size=9, **shape))); print(accelerate.Accelerator(cpu=True).device)
print(TrainingArguments("out", use_cpu=True).seed)""",
    "ray": """
import ray, ray.data; print(ray.remote(lambda: 1).__class__)""",
}
INSTALLED_FOR_IT = {  # requirements-long.lock
    "wandb": """
import numpy, wandb
with wandb.init(mode="offline", settings=wandb.Settings(silent=True)) as run:
    run.log({"loss": 1.0, "image": wandb.Image(numpy.zeros((2, 2)))}); drawn = {"run": run.id}""",
    "hydra": """
import hydra, sys
words = ".output_subdir=null", ".run.dir=.", "/job_logging=disabled", "/hydra_logging=disabled"
given, sys.argv = sys.argv, [sys.argv[0], "+lr=0.1", *(f"hydra{word}" for word in words)]
@hydra.main(version_base=None, config_path=None)
def main(config): print(config)
main(); sys.argv = given""",
    "sklearn": """
from sklearn.ensemble import RandomForestClassifier
forest = RandomForestClassifier(9).fit([[x] for x in range(99)], [x % 2 for x in range(99)])
drawn = {"forest": [tree.random_state for tree in forest.estimators_]}""",
    "tensorboard": """
from torch.utils.tensorboard import SummaryWriter
with SummaryWriter("runs") as writer: writer.add_scalar("loss", 1.0, 0)""",
    "gymnasium": """
import gymnasium; drawn = {"world": gymnasium.make("CartPole-v1").reset()}""",
}

# These may be the same in all forked models (see ahead.HARMLESS_DRAWS), or tell the time.
ALIKE = re.compile(
    r"joblib\._multiprocessing_helpers\.name|sympy\.core\.symbol\.Dummy\._base_dummy_index"
    r"|transformers\.utils\.hub\.SESSION_ID|(ray|torch\.distributed)\..*|numpy\.f2py\..*time"
)


def compare(folder, script):
    """Compare what two fresh and two forked models note of themselves, and what they print."""
    # Sets have one order; transformers sets a variable otherwise, and all later is left.
    env = {"PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    words, runs = ["train.py", "--seed", "3"], []
    with Server(folder, script + REPORT, **env) as server:
        for fresh in (True, True, False, False, False):
            if fresh:
                log = folder / "fresh.log"
                with log.open("w") as file:
                    status = subprocess.call(
                        [sys.executable, *words], cwd=folder, env=server.env, stdout=file,
                        stderr=file, stdin=subprocess.DEVNULL, start_new_session=True,
                    )  # fmt: skip
                text = log.read_text()
            else:
                status, text = server.train(*words[1:])
            assert status == 0, text
            runs.append((text, json.loads((folder / "noted.json").read_text())))
    print(server.learnt())  # of a test that fails
    assert [text for text, _ in runs] == [runs[0][0]] * 5
    del runs[2]  # it is forked from a process that has imported nothing
    noted = [values for _, values in runs]
    pids = [re.compile(rf"(?<!\d){values.pop('process id')}(?!\d)") for values in noted]
    wrong = {}
    for name in set.intersection(*map(set, noted)):
        four = [values[name] for values in noted]
        if len(set(four)) > 1:  # each may hold its own process id, and be alike otherwise
            four = [pid.sub("PID", text) for pid, text in zip(pids, four, strict=True)]
        if len(set(four)) != (1 if four[0] == four[1] else 4) and not ALIKE.fullmatch(name):
            wrong[name] = four
    assert wrong == {}


@pytest.mark.parametrize("package", QUICK)
def test_a_forked_model_sees_what_a_fresh_one_sees(tmp_path, package):
    compare(tmp_path, QUICK[package])


@pytest.mark.parametrize("package", LARGE | INSTALLED_FOR_IT)
def test_a_forked_model_of_a_large_package_sees_it_too(tmp_path, package):
    if package in INSTALLED_FOR_IT and find_spec(package) is None:
        pytest.skip(f"{package} is not installed: make long")
    compare(tmp_path, (LARGE | INSTALLED_FOR_IT)[package])
