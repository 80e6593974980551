"""Verdicts made up: causes.json and microbenchmarks.json, as far as a report reads them."""

import copy

KERNELS = {
    "register": "a loop in registers",
    "llc": "a stream in the last-level cache",
    "memory": "a stream in memory",
    "pages": "mapping and touching pages",
}


def estimate(value, spread=0.03):
    return {"value": value, "low": value - spread, "high": value + spread}


def cause(name, title, share, *, proof=(), doubt=(), confidence="high", **more):
    return {
        "cause": name,
        "title": title,
        "share": estimate(*share),
        "confidence": confidence,
        "for": [{"kind": "account", "text": text} for text in proof],
        "against": [{"kind": "account", "text": text} for text in doubt],
        "source": "The manual.",
        "remedy": {"text": "Change it."},
        **more,
    }


SPINNING = cause(
    "spinning",
    "OpenMP threads that spin while they wait",
    (0.94, 0.05),
    proof=[
        "With passive waiting 94% of the added time comes back (89% to 99%, 5 blocks).",
        "71% of the added time is run-queue wait: four threads on two CPUs.",
        "libgomp spins for long where OMP_WAIT_POLICY is not set.",
    ],
    doubt=["Voluntary switches a step did not fall."],
    remedy={
        "text": "Let waiting threads sleep, or give each process one thread.",
        "config": "launches:\n  grid:\n    wait_policy: [passive]\n",
        "command": "env -u GOMP_SPINCOUNT \\\n  OMP_WAIT_POLICY=PASSIVE python train.py",
    },
)
BANDWIDTH = cause("memory_bandwidth", "Memory bandwidth", (0.01, 0.05))
QUOTA = cause("cpu_quota", "CPU quota of the cgroup", (0.0, 0.0))
FAULTS = cause("page_faults", "Page faults by the allocator's settings", (0.08, 0.12))
SLOW_BLAS = cause(
    "slow_blas",
    "A slow BLAS kernel",
    (0.34, 0.04),
    proof=["With OpenBLAS a step alone takes 34% less (30% to 38%)."],
    confidence="medium",
    remedy={"text": "Preload OpenBLAS.", "code": "torch.backends.mkldnn.enabled = False"},
)
REMOTE = {"title": "Memory of a remote NUMA node", "reason": "this machine has one memory node"}
ACCOUNTS = {
    # name: title, and times of a step with one process and with many, in s
    "user": ("CPU time in user mode", 8.6e-3, 60e-3),
    "system": ("CPU time in the kernel", 0.4e-3, 1.1e-3),
    "runqueue": ("waiting for a CPU (run queue)", 0.1e-3, 125e-3),
    "throttled": ("throttled by a quota", 0.0, 0.0),
    "blocked": ("blocked", 0.7e-3, 6.2e-3),
    "residual": ("not accounted for", -0.1e-3, 1.2e-3),
}
INTERVENTIONS = [
    # title, and what comes back of the added time, of growth and of a step alone
    ("passive waiting", 0.94, 0.95, 0.01),
    ("one thread per operator", 0.97, 0.96, 0.05),
    ("pinned to one CPU each", 0.31, 0.29, -0.04),
    ("glibc thresholds raised", 0.08, 0.06, 0.11),
    ("jemalloc", 0.02, -0.03, 0.09),
]
TARGET = {
    "target": "default-44136f", "launch": "default-44136f", "label": "default", "role": "default",
    "n": 2, "effort": "quick", "status": "explained", "units": "blocks", "unit_count": 5,
    "start_sd": 0.034, "growth_ratio": estimate(19.9, 0.6),
    "scaling_loss": {
        "named": [SPINNING], "ruled_out": [BANDWIDTH, QUOTA], "inconclusive": [FAULTS],
        "not_tested": [REMOTE], "explained_share": estimate(0.94, 0.05),
        "unexplained_share": estimate(0.06, 0.05),
    },
    "single_process_loss": {"ruled_out": [FAULTS | {"share": estimate(0.03)}]},
    "accounts": [
        {"account": name, "title": title, "low_s": low, "high_s": high}
        for name, (title, low, high) in ACCOUNTS.items()
    ],
    "counts": [
        {"title": "minor faults per step", "low": 2300, "high": 2410.5},
        {"title": "pressure on CPUs (PSI)", "low": 0.01, "high": None},
    ],
    "interventions": [
        {"title": title, "status": "measured", "comes_back": estimate(back, 0.05),
         "scaling_loss": estimate(growth, 0.06), "single_process_loss": estimate(alone)}
        for title, back, growth, alone in INTERVENTIONS
    ],
    "sensitivities": [
        {"kernel": kernel, "title": title, "verified": kernel != "pages", "doses": [
            {"dose": dose, "ratio": estimate(1 + 0.04 * at * dose, 0.02 * bool(dose))}
            for dose in (0.0, 0.3333, 0.6667, 1.0)
        ]}
        for at, (kernel, title) in enumerate(KERNELS.items())
    ],
    "foreign": [{"name": "backup", "pid": 77, "cpu_s": 12.5, "share": 0.25}],
    "waits": [{"n": 2, "syscall": "flock", "on": "/data/cache.lock", "share": 0.75}],
}  # fmt: skip


def target(**changes):
    """Return a target whose growth one cause explains."""
    return copy.deepcopy({**TARGET, **changes})


def single_process_only():
    """Return a recommended launch that scales, and whose step is slow with one process already."""
    return target(
        target="recommended", launch="intra_op-1-aa", label="intra_op 1", role="baseline",
        growth_ratio=estimate(1.02, 0.02), accounts=[],
        scaling_loss={"ruled_out": [BANDWIDTH]},
        single_process_loss={"named": [SLOW_BLAS], "ruled_out": [FAULTS]},
    )  # fmt: skip


def causes(machine, *targets):
    """Return analysis/causes.json of one machine."""
    return {"schema_version": 1, "machines": [{"machine": machine, "targets": list(targets)}]}


def microbenchmarks(machine):
    """Return microbenchmarks.json; every kernel but the control gets slower with its place."""
    rows = [
        {"kernel": kernel, "placement": "cores", "n": n, "block": block,
         "rates": [1000 / (1 + 0.08 * at * (n - 1)) * (1 + 0.004 * block)] * n,
         "valid": True, "flags": []}
        for at, kernel in enumerate(KERNELS)
        for n in (1, 2, 4, 8)
        for block in range(3)
    ]  # fmt: skip
    kernels = [{"kernel": name, "title": title, "bound_by": ""} for name, title in KERNELS.items()]
    about = {"schema_version": 1, "machine": machine, "started": "2025-01-01T00:00:00+00:00"}
    return {**about, "kernels": kernels, "rows": rows}
