"""Verdicts made up: analysis/causes.json and microbenchmarks.json as the verdict writes them.

Each function of a target returns one of a different kind; `causes` puts targets into the file.
"""

import copy

KERNELS = {
    "register": "a loop in registers",
    "multiply": "a multiply that stays in L1",
    "l2": "a stream in L2",
    "llc": "a stream in the last-level cache",
    "memory": "a stream in memory",
    "pages": "mapping and touching pages",
    "gather": "random gather",
    "wake": "two threads that wake one another",
}


def estimate(value, spread=0.03):
    return {"value": value, "low": value - spread, "high": value + spread}


def evidence(kind, text):
    return {"kind": kind, "text": text}


def cause(name, title, share, *, proof=(), doubt=(), open_=(), confidence="high", **more):
    return {
        "cause": name,
        "title": title,
        "share": share if isinstance(share, dict) or share is None else estimate(share),
        "confidence": confidence,
        "for": [evidence(*each) for each in proof],
        "against": [evidence(*each) for each in doubt],
        "open": [evidence(*each) for each in open_],
        "source": "The manual.",
        "remedy": {"text": "Change it.", "axes": None, "config": None, "command": None},
        **more,
    }


SPINNING = cause(
    "spinning",
    "OpenMP threads that spin while they wait",
    estimate(0.94, 0.05),
    proof=[
        (
            "intervention",
            "With passive waiting 94% of the added time comes back (89% to 99%, 5 blocks).",
        ),
        ("account", "71% of the added time is run-queue wait: four threads on two CPUs."),
        ("fact", "libgomp spins for long where OMP_WAIT_POLICY is not set."),
    ],
    doubt=[("account", "Voluntary switches a step did not fall.")],
    source="libgomp manual, GOMP_SPINCOUNT",
    remedy={
        "text": "Let waiting threads sleep, or give each process one thread.",
        "axes": {"wait_policy": "passive"},
        "config": "launches:\n  grid:\n    wait_policy: [passive]\n",
        "command": "env -u GOMP_SPINCOUNT \\\n  OMP_WAIT_POLICY=PASSIVE python train.py",
    },
)
BANDWIDTH = cause(
    "memory_bandwidth",
    "Memory bandwidth",
    estimate(0.01, 0.05),
    doubt=[("aggravation", "Beside a stream in memory a step takes 1.02 times as long.")],
)
QUOTA = cause(
    "cpu_quota",
    "CPU quota of the cgroup",
    estimate(0.0, 0.0),
    doubt=[("account", "No time was throttled.")],
)
FAULTS = cause(
    "page_faults",
    "Page faults by the allocator's settings",
    estimate(0.08, 0.12),
    proof=[("account", "Minor faults a step: 2,300 and 2,410.")],
    doubt=[("intervention", "With raised thresholds 8% of the added time comes back (0% to 20%).")],
    confidence="low",
)
OLD_BLAS = cause(
    "slow_blas",
    "A slow BLAS kernel",
    estimate(0.34, 0.04),
    proof=[("intervention", "With OpenBLAS a step alone takes 34% less (30% to 38%).")],
    confidence="medium",
    remedy={
        "text": "Preload OpenBLAS.",
        "axes": {"blas": "openblas"},
        "config": None,
        "command": None,
        "code": "torch.backends.mkldnn.enabled = False",
    },
)
NOT_TESTED = {
    "cause": "remote_memory",
    "title": "Memory of a remote NUMA node",
    "reason": "this machine has one memory node",
}


def side(
    named=(), ruled_out=(), inconclusive=(), not_tested=(), *, explained=None, unexplained=None
):
    return {
        "named": list(named),
        "ruled_out": list(ruled_out),
        "inconclusive": list(inconclusive),
        "not_tested": list(not_tested),
        "explained_share": explained,
        "unexplained_share": unexplained,
    }


ACCOUNTS = {
    # name: title, and times of a step with one process and with many, in s
    "user": ("CPU time in user mode", 8.6e-3, 60e-3),
    "system": ("CPU time in the kernel", 0.4e-3, 1.1e-3),
    "runqueue": ("waiting for a CPU (run queue)", 0.1e-3, 125e-3),
    "throttled": ("throttled by a quota", 0.0, 0.0),
    "blocked": ("blocked", 0.7e-3, 6.2e-3),
    "residual": ("not accounted for", -0.1e-3, 1.2e-3),
}


def accounts(times=None):
    times = ACCOUNTS if times is None else times
    added_s = sum(high - low for _, low, high in times.values())
    return [
        {
            "account": name,
            "title": title,
            "low_s": low,
            "high_s": high,
            "difference_s": high - low,
            "share": (high - low) / added_s,
        }
        for name, (title, low, high) in times.items()
    ]


def intervention(name, title, comes_back, growth, level, **more):
    return {
        "intervention": name,
        "title": title,
        "comes_back": comes_back and estimate(comes_back, 0.05),
        "scaling_loss": estimate(growth, 0.06) if growth is not None else None,
        "single_process_loss": estimate(level, 0.03) if level is not None else None,
        "units": 5,
        "status": "measured",
        "reason": None,
        **more,
    }


INTERVENTIONS = [
    intervention("passive", "passive waiting", 0.94, 0.95, 0.01),
    intervention("one_thread", "one thread per operator", 0.97, 0.96, 0.05),
    intervention("pinned", "pinned to one CPU each", 0.31, 0.29, -0.04),
    intervention("large_thresholds", "glibc thresholds raised", 0.08, 0.06, 0.11),
    intervention("jemalloc", "jemalloc", 0.02, -0.03, 0.09),
    intervention("openblas", "OpenBLAS", None, None, None, status="failed",
           reason="sgemm_ is still that of libtorch_cpu.so"),
    intervention("spread", "spread over caches and nodes", None, None, None,
                 status="not_applicable", reason="one L3 cache and one memory node"),
]  # fmt: skip


def sensitivity(kernel, effect, *, verified=True):
    return {
        "kernel": kernel,
        "title": KERNELS[kernel],
        "verified": verified,
        "doses": [
            {
                "dose": dose,
                "ratio": estimate(1 + effect * dose, 0.02) if dose else estimate(1.0, 0.0),
                "rate_share": (0.97 if verified else 0.4) if dose else None,
            }
            for dose in (0.0, 0.3333, 0.6667, 1.0)
        ],
        "effect": estimate(effect),
    }


SENSITIVITIES = [
    sensitivity(kernel, effect, verified=kernel != "gather")
    for kernel, effect in zip(KERNELS, (0.01, 0.02, 0.04, 0.12, 0.35, 0.22, 0.1, 0.03), strict=True)
]


def target(**changes):
    """Return a target whose growth one cause explains."""
    return copy.deepcopy({
        "target": "default-44136f",
        "launch": "default-44136f",
        "label": "default",
        "role": "default",
        "n": 2,
        "effort": "quick",
        "status": "explained",
        "reason": None,
        "same_as": None,
        "units": "blocks",
        "unit_count": 5,
        "start_sd": 0.034,
        "step_1_s": estimate(9.7e-3, 1e-4),
        "step_n_s": estimate(193.5e-3, 4e-3),
        "growth_ratio": estimate(19.9, 0.6),
        "scaling_loss": side(
            [SPINNING], [BANDWIDTH, QUOTA], [FAULTS], [NOT_TESTED],
            explained=estimate(0.94, 0.05), unexplained=estimate(0.06, 0.05),
        ),
        "single_process_loss": side(
            ruled_out=[FAULTS | {"share": estimate(0.03), "confidence": "high"}], explained=None
        ),
        "accounts": accounts(),
        "counts": [
            {"name": "minor_faults", "title": "minor faults per step", "low": 2300, "high": 2410.5},
            {"name": "threads", "title": "threads alive", "low": 9, "high": 18},
            {"name": "psi_cpu", "title": "pressure on CPUs (PSI)", "low": 0.01, "high": None},
        ],
        "interventions": INTERVENTIONS,
        "sensitivities": SENSITIVITIES,
        "knee": None,
        "foreign": [{"name": "backup", "pid": 77, "cpu_s": 12.5, "share": 0.25}],
        "waits": [],
        **changes,
    })  # fmt: skip


def same():
    """Return a recommended launch that another target is already."""
    return target(
        target="recommended", same_as="default-44136f", status="skipped",
        reason="the same launch as default",
    )  # fmt: skip


def single_process_only():
    return target(
        target="recommended", launch="intra_op-1-aa", label="intra_op 1", role="baseline",
        step_n_s=estimate(9.9e-3, 1e-4), growth_ratio=estimate(1.02, 0.02),
        scaling_loss=side(ruled_out=[BANDWIDTH]), single_process_loss=side([OLD_BLAS], [FAULTS]),
        accounts=accounts({
            "user": ("CPU time in user mode", 8.6e-3, 8.75e-3),
            "system": ("CPU time in the kernel", 0.4e-3, 0.42e-3),
            "runqueue": ("waiting for a CPU (run queue)", 0.02e-3, 0.09e-3),
            "residual": ("not accounted for", 0.0, -0.04e-3),
        }),
    )  # fmt: skip


def unknown():
    return target(
        status="inconclusive",
        scaling_loss=side(
            [], [BANDWIDTH], [FAULTS], [NOT_TESTED],
            explained=estimate(0.0, 0.05), unexplained=estimate(1.0, 0.05),
        ),
    )  # fmt: skip


def nothing():
    return target(
        status="nothing_to_explain", growth_ratio=estimate(1.01, 0.03),
        step_n_s=estimate(9.8e-3), single_process_loss=side(),
        scaling_loss=side(ruled_out=[BANDWIDTH]),
        summary="Two processes are as fast as one.",
    )  # fmt: skip


def ended(status="failed"):
    """Return a target without results."""
    missing = dict.fromkeys(
        [
            "n",
            "units",
            "unit_count",
            "start_sd",
            "step_1_s",
            "step_n_s",
            "growth_ratio",
            "summary",
            "knee",
        ]
    )
    empty = {
        key: []
        for key in ("accounts", "counts", "interventions", "sensitivities", "microbenchmarks",
                    "foreign", "waits")
    }  # fmt: skip
    return target(
        **missing, **empty, status=status, reason="a member was killed by signal 9",
        scaling_loss=side(), single_process_loss=side(),
    )  # fmt: skip


def large():
    """Return a target of a machine with 192 CPUs: several causes, and a share above 1."""
    return target(
        n=64, unit_count=3, start_sd=None, units="replicates", effort="full",
        growth_ratio=estimate(3.63, 0.2),
        step_1_s=estimate(28.8e-3, 1e-3), step_n_s=estimate(104.5e-3, 2e-3),
        scaling_loss=side(
            [
                SPINNING | {"title": "Memory bandwidth", "share": estimate(0.58, 0.1)},
                cause("llc", "Last-level cache shared by 8 cores", estimate(0.31, 0.12),
                      confidence="low"),
                cause("smt", "SMT siblings that share a core", estimate(0.16, 0.03)),
                cause("frequency", "A lower clock", None),
            ],
            explained=estimate(1.05, 0.2), unexplained=estimate(-0.05, 0.2),
        ),
        knee=estimate(24, 4) | {"boundary": {"name": "NUMA node", "n": 24}},
        waits=[{"n": 64, "syscall": "flock", "on": "/data/cache.lock", "share": 0.75}],
    )  # fmt: skip


def causes(machine, *targets):
    """Return analysis/causes.json of one machine."""
    return {"schema_version": 1, "machines": [{"machine": machine, "targets": list(targets)}]}


def microbenchmarks(machine, counts=(1, 2, 4, 8), blocks=3):
    """Return microbenchmarks.json; every kernel but the control gets slower with its place."""
    rows = []
    for at, kernel in enumerate(KERNELS):
        for n in counts:
            for block in range(blocks):
                rate = 1000 / (1 + 0.08 * at * (n - 1)) * (1 + 0.004 * block)
                rows.append(
                    {"kernel": kernel, "placement": "cores", "n": n, "block": block,
                     "rates": [rate] * n, "valid": True, "flags": []}
                )  # fmt: skip
    return {
        "schema_version": 1,
        "machine": machine,
        "started": "2025-01-01T00:00:00+00:00",
        "kernels": [
            {"kernel": name, "title": title, "bound_by": "something", "bytes": None}
            for name, title in KERNELS.items()
        ],
        "rows": rows,
    }
