"""The ``dask`` launcher: every member is a task in a worker of a real LocalCluster.

``python -m scaling_study.member.dask_host FOLDER MEMBERS``, with one JSON request a line on stdin
(see ``launchers.Host``). Workers have nannies, and inherit this process's environment: Dask's own
default one, with what the launch sets instead (``axes.dask_environment``). A nanny exports a
default of Dask's only where the environment does not have the variable yet.

Scheduler, nannies and workers run whatever a peer sends them, and every user of the machine can
reach their ports. So they speak TLS, with a key that lives as long as the cluster: a peer without
it is refused.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import dask
from distributed import Client, LocalCluster, Security


def pid() -> int:
    """Return the worker's process id; runs in the worker."""
    return os.getpid()


def serve_member(folder: str, request: dict[str, Any]) -> None:
    """Be a member; runs in a thread of the worker, as Dask's tasks do."""
    from scaling_study.member import bind, worker  # noqa: PLC0415 (torch is the worker's to import)

    log = os.open(
        Path(folder) / f"log-{request['slot']}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
    )
    os.dup2(log, 1)
    os.dup2(log, 2)
    if request["cpus"] is not None:
        for task in Path("/proc/self/task").iterdir():
            os.sched_setaffinity(int(task.name), bind.parse_ids(request["cpus"]))
    try:
        worker.serve(
            Path(folder),
            request["slot"],
            request["command"],
            step=request["step"],
            inter_op=request["inter_op"],
            change=request["change"],
            launcher="dask",
        )
    except BaseException:  # noqa: BLE001 (the member is over, whatever it was: the log says why)
        import traceback  # noqa: PLC0415

        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def main(folder: str, members: int) -> None:
    """Start the cluster, then a member for every request."""
    dask.config.set(
        {
            "temporary-directory": folder,  # else a folder of Dask's own stays in /tmp
            # Its HTTP servers have no TLS here, and cannot be left out: they serve nothing.
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
        pids = client.run(pid)
        started: list[Any] = []
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
            sys.stdout.write(f"{answer}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
