"""Profiles made up from a known truth, as the profile job writes them."""

from msgspec.structs import replace

import synthetic
from scaling_study.records import codec, profile

OPERATORS = {
    # (operator, phase): calls and self seconds per step with one process, and how many times as
    # long a call takes with many.
    ("aten::addmm", "forward"): (12, 2.0e-3, 1.1),
    ("aten::mm", "backward"): (24, 3.6e-3, 1.1),
    ("aten::mul", "forward"): (8, 0.8e-3, 5.0),
    ("aten::mul", "backward"): (6, 0.6e-3, 4.0),
    ("aten::clamp_min", "forward"): (4, 0.2e-3, 7.0),
    ("aten::add_", "optimizer"): (40, 0.5e-3, 1.6),
    ("aten::bernoulli_", "forward"): (4, 1.0e-3, 1.02),
    ("aten::index", "load"): (2, 0.3e-3, 1.5),
    ("aten::copy_", ""): (30, 0.25e-3, 1.4),
    ("aten::view", "forward"): (60, 0.1e-3, 1.2),
    ("autograd::engine::evaluate_function: AddmmBackward0", "backward"): (12, 0.08e-3, 1.2),
    ("Optimizer.step#AdamW.step", "optimizer"): (1, 0.3e-3, 1.3),
    ("mine::special", "forward"): (1, 0.05e-3, 1.0),
}
OUTSIDE_S = 0.6e-3
STEPS = 5
STACK = 'process 7:"python train.py";thread (7): MainThread;<module> (train.py:1)'


def operators(many, factor):
    """Return what a member did."""
    rows = []
    for (operator, phase), (calls, self_s, inflation) in OPERATORS.items():
        each = self_s * factor * (inflation if many else 1.0)
        rows.append(
            profile.OperatorSums(
                operator=operator,
                phase=phase,
                calls=calls * STEPS,
                self_s=each * STEPS,
                total_s=1.2 * each * STEPS,
                flops=1000 * calls * STEPS if "mm" in operator else None,
            )
        )
    return profile.Operators(steps=STEPS, rows=tuple(rows))


def write_target(folder, launch, machine, *, target=None, factor=1.0):
    """Write profile/<target>/ of one launch under a study's folder; return the target's folder."""
    place = folder / "profile" / (target or launch.id)
    points = []
    for n in (1, 8):
        content = operators(n > 1, factor)
        (place / str(n)).mkdir(parents=True)
        codec.write_file(place / str(n) / "operators.json", content)
        profiled_s = sum(row.self_s for row in content.rows) / STEPS + OUTSIDE_S
        overhead = 1.22 if n == 1 else 1.04
        taken = profile.PointProfile(
            kind="operators", status="ok", steps=content.steps, step_s=profiled_s,
            overhead=overhead, unprofiled_step_s=profiled_s / overhead,
            files=(f"{n}/operators.json",),
        )  # fmt: skip
        skipped = profile.PointProfile(
            kind="stacks", status="skipped", reason="py-spy: Permission denied",
            remedy="sudo sysctl kernel.yama.ptrace_scope=0",
        )  # fmt: skip
        points.append(
            profile.ProfiledPoint(n=n, unprofiled_step_s=profiled_s / 1.1, kinds=(taken, skipped))
        )
    write_manifest(
        place, machine=machine["hash"], launch=launch.id, label=launch.label,
        role=launch.role, target=target or launch.id, points=tuple(points),
    )  # fmt: skip
    return place


def add_stacks(place, *, lines=None):
    """Put stacks in place of those that were skipped, beside every point of a target."""
    manifest = codec.read_file(place / "profile.json", profile.Profiled)
    points = []
    for point in manifest.points:
        raw = [
            f"{STACK};mul (libtorch_cpu.so) {90 if point.n > 1 else 30}",
            f"{STACK};mm (libtorch_cpu.so);mkl_blas_avx512_sgemm_kernel_0 (libmkl_avx512.so.2) 60",
        ]
        path = place / str(point.n) / "stacks-0.raw"
        path.write_text("\n".join(raw if lines is None else lines) + "\n")
        turn = profile.Turn(
            slot=0, pid=7, trainer_tid=7, seconds=10.0, steps=100, samples=150, file=path.name
        )
        taken = profile.PointProfile(
            kind="stacks", status="ok", steps=100, step_s=0.02, unprofiled_step_s=0.019,
            overhead=1.05, rate_hz=20, native=True, seconds=10.0, samples=150, members=1,
            turns=(turn,), files=(f"{point.n}/stacks-0.raw",),
        )  # fmt: skip
        points.append(replace(point, kinds=(point.kinds[0], taken)))
    codec.write_file(place / "profile.json", replace(manifest, points=tuple(points)))


def write_manifest(place, **content):
    """Write profile.json; what is not given is that of a complete profile."""
    place.mkdir(parents=True, exist_ok=True)
    manifest = profile.Profiled(**{"schema_version": 3, "status": "complete", **content})
    codec.write_file(place / "profile.json", manifest)


def write_study(folder, machine=None):
    """Write the profiles of the default, the baseline and the recommended launch."""
    machine = machine or synthetic.machine()
    default, baseline, best = synthetic.LAUNCHES[0], synthetic.LAUNCHES[1], synthetic.LAUNCHES[4]
    return [
        write_target(folder, default, machine, factor=3.0),
        write_target(folder, baseline, machine),
        write_target(folder, best, machine, target="recommended", factor=0.8),
    ]
