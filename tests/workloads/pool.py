"""Train models in processes that this program starts itself.

With --ends each process writes when its steps end: a file named by its pid, 8 bytes for each step
(ns of the monotonic clock).
"""

import argparse
import array
import concurrent.futures
import contextlib
import multiprocessing
import os
import pathlib
import time

import torch

from size import scaled


def fit(steps):
    """Train a model; return the process."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.Adam(model.parameters())
    batch = torch.randn(scaled(512), 64)
    folder = os.environ.get("STEPS_FOLDER")
    path = pathlib.Path(folder, str(os.getpid())) if folder else None
    with path.open("ab", buffering=0) if path else contextlib.nullcontext() as ends:
        for _ in range(steps):
            optimizer.zero_grad()
            model(batch).pow(2).mean().backward()
            optimizer.step()
            if ends:
                ends.write(array.array("q", [time.monotonic_ns()]))
    return os.getpid()


def queued(steps, results):
    results.put(fit(steps))


def run_joblib(jobs, tasks):
    import joblib

    return joblib.Parallel(n_jobs=jobs)(joblib.delayed(fit)(steps) for steps in tasks)


def run_executor(how, jobs, tasks):
    context = multiprocessing.get_context(how)
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        return list(pool.map(fit, tasks))


def run_torch(jobs, tasks):
    context = torch.multiprocessing.get_context("spawn")
    results, found, waiting, running = context.SimpleQueue(), [], list(tasks), []
    while waiting or running:
        while waiting and len(running) < jobs:
            process = context.Process(target=queued, args=(waiting.pop(), results))
            process.start()
            running.append(process)
        found.append(results.get())
        for process in running:
            process.join(0.5 if process.pid == found[-1] else 0)
        running = [process for process in running if process.is_alive()]
    return found


def run_dask(jobs, tasks):
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=jobs, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        return client.gather(client.map(fit, tasks, pure=False))


RUN = {
    "joblib": run_joblib,
    "fork": lambda *args: run_executor("fork", *args),
    "spawn": lambda *args: run_executor("spawn", *args),
    "torch": run_torch,
    "dask": run_dask,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--how", choices=RUN, required=True)
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--models", type=int, default=4, help="for each process")
    parser.add_argument("--steps", type=int, default=2000, help="of a model")
    parser.add_argument("--ends", metavar="FOLDER", help="where to write when steps end")
    options = parser.parse_args()
    if options.ends:
        os.environ["STEPS_FOLDER"] = options.ends
    tasks = [options.steps] * options.models * options.jobs
    found = RUN[options.how](options.jobs, tasks)
    print(f"{len(found)} models", flush=True)


if __name__ == "__main__":
    main()
