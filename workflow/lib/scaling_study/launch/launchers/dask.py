"""The ``dask`` launcher: every member is a task in a worker of a real LocalCluster.

``python -m scaling_study.launch.launchers.dask FOLDER MEMBERS``, with one JSON request a line
on stdin (see ``launcher.Host``). Workers have nannies, and inherit this process's environment:
Dask's defaults (``environment``), which the launch's own variables replace. A nanny exports a
default of Dask's only if the environment does not have the variable yet.

Scheduler, nannies and workers run whatever a peer sends them, and every user of the machine can
reach their ports. So they use TLS with a key that lives as long as the cluster, and refuse a peer
without it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.launchers.launcher import Launcher, Request, hosted, print_apart


def environment() -> dict[str, str]:
    """Return the variables that this installation's Dask sets for its workers by default.

    Raises:
        UnavailableError: Dask is not installed beside the study.
    """
    try:
        import dask  # noqa: PLC0415
        import distributed  # noqa: F401, PLC0415 (it adds its defaults to dask.config)
    except ImportError as error:
        raise UnavailableError(
            f"{sys.executable} has no {error.name}",
            f"{sys.executable} -m pip install distributed cryptography",
        ) from error

    defaults = dask.config.get("distributed.nanny.pre-spawn-environ")
    return {name: str(value) for name, value in defaults.items() if value is not None}


def serve_member(folder: str, request: Request) -> None:
    """Run a member in a thread of the worker, as Dask runs its tasks."""
    from scaling_study.member import worker  # noqa: PLC0415 (torch is the worker's to import)
    from scaling_study.queues import bind  # noqa: PLC0415 (torch is the worker's to import)

    print_apart(folder, request["slot"])
    if request["cpus"] is not None:
        for task in Path("/proc/self/task").iterdir():
            os.sched_setaffinity(int(task.name), bind.parse_ids(request["cpus"]))
    try:
        # A nanny expects to keep the process that it has started.
        worker.main(*request["words"], replaceable=False)
    except BaseException:  # noqa: BLE001 (whatever it is, Python would end with it)
        import traceback  # noqa: PLC0415

        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def main(folder: str, members: int) -> None:
    """Start the cluster, then a member for every request."""
    import dask  # noqa: PLC0415
    from distributed import Client, LocalCluster, Security  # noqa: PLC0415

    dask.config.set(
        {
            "temporary-directory": folder,  # otherwise a folder of Dask's stays in /tmp
            # Dask's HTTP servers have no TLS here, and cannot be left out, so they serve nothing.
            "distributed.scheduler.http.routes": [],
            "distributed.worker.http.routes": [],
        }
    )
    cluster = LocalCluster(
        n_workers=members,
        threads_per_worker=1,
        dashboard_address=None,
        silence_logs=40,
        security=Security.temporary(),
    )
    with Client(cluster) as client:
        addresses = [worker.worker_address for worker in cluster.workers.values()]
        pids = client.run(os.getpid)
        started: list[object] = []
        for line in sys.stdin:
            request = json.loads(line)
            address = addresses[request["slot"]]
            if len(started) > request["slot"]:
                answer = "error: a Dask worker's task is not started twice"
            else:
                started.append(
                    client.submit(serve_member, folder, request, workers=[address], pure=False)
                )
                answer = str(pids[address])
            print(answer, flush=True)


LAUNCHER = Launcher(
    "workers of a Dask LocalCluster with Dask's own default environment",
    hosted(__name__),
    # A worker samples its own stack a hundred times a second, also while its task sleeps.
    rests=False,
    # The cluster starts its workers itself.
    binds_memory=False,
    environment=environment,
    note=(
        "The measured members were workers of a Dask LocalCluster. This script starts plain",
        "processes with the environment that Dask gave its workers.",
    ),
    remark="Dask's nanny sets MALLOC_TRIM_THRESHOLD_=65536, which freezes glibc's mmap threshold.",
)

if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
