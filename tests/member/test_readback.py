"""What a process says it really got: one process for each launch, all of them real."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import convert

from made_records import READBACK, UNBOUND
from scaling_study.common.unavailable import UnavailableError
from scaling_study.host import probe
from scaling_study.launch.axes import axis_table
from scaling_study.launch.axes.axis import Where
from scaling_study.launch.axes.axis_table import DEFAULTS
from scaling_study.records.codec import plain
from scaling_study.records.readback import Readback
from scaling_study.runner.environment import member_environment

NUMA_MAPS = """\
5649b5a5e000 default file=/usr/bin/python3 mapped=10 N0=6 N1=4 kernelpagesize_kB=4
5649b7b6c000 interleave:0-1 heap anon=30 dirty=30 N0=15 N1=15 kernelpagesize_kB=4
7f0c00000000 bind:1 file=/tmp/a\\040N7=9 anon=512 N1=512 kernelpagesize_kB=4
7ffd00000000 default stack anon=3 dirty=3 N10=3 kernelpagesize_kB=4
"""
# It reports twice, once after the script has changed what it may change; its random state must be
# as before. Then what needs torch only because readback imports it.
CODE = """
import json, os, sys
from pathlib import Path
import torch
from scaling_study.member import readback
if sys.argv[1] != "default":
    torch.set_num_interop_threads(int(sys.argv[1]))
state = torch.random.get_rng_state()
first = readback.report()
torch.set_default_dtype(torch.float64)
multiply, types = torch.mm, set()
def spy(left, right, out):
    types.update(str(matrix.dtype) for matrix in (left, right, out))
    return multiply(left, right, out=out)
torch.mm = spy
second = readback.report()
same = torch.equal(state, torch.random.get_rng_state())
found = {"first": first, "second": second, "same": same, "pid": os.getpid()}
found["types"] = list(types)
found["nobody"] = [readback.owner("no_such_symbol_anywhere"), readback.sgemm_kernel(None)]
Path.read_text = lambda _: sys.argv[2]
found["literal"] = [readback.memory_policy()]
Path.read_text = lambda _: sys.argv[2].replace(" heap", "")
found["literal"].append(readback.memory_policy())
print(json.dumps(found))
"""
CASES = {
    "bundled": {"intra_op": 2},
    "openblas": {"blas": "openblas", "intra_op": 1, "isa": "avx2"},
    "mkl, huge pages": {
        "blas": "mkl", "intra_op": 1, "inter_op": 3, "huge_pages": "always",
        "allocator": "glibc-large-thresholds",
    },
    "intel path, jemalloc": {
        "blas": "bundled-intel-path", "allocator": "jemalloc", "intra_op": 2,
        "wait_policy": "passive",
    },
    "intel, openblas": {"openmp": "intel", "blas": "openblas", "intra_op": 2},
    "llvm, mkl": {"openmp": "llvm", "blas": "mkl", "intra_op": 2},
}  # fmt: skip


def started(values, folder):
    launch = {**DEFAULTS, **values}
    environment = axis_table.prepare(launch, Where(probe.read_machine(), folder)).environment()
    return subprocess.Popen(
        [sys.executable, "-c", CODE, str(launch["inter_op"]), NUMA_MAPS],
        env=member_environment(os.environ, environment, {}),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Reports of a process for each case, all started at once, or why this machine has none."""
    folder = tmp_path_factory.mktemp("built")
    found = {}
    for name, values in CASES.items():
        try:
            found[name] = started(values, folder)
        except UnavailableError as unavailable:
            found[name] = f"{unavailable.reason}: {unavailable.remedy}"
    for name, process in found.items():
        if not isinstance(process, str):
            text, errors = process.communicate()
            found[name] = json.loads(text) | {"stderr": errors}
    return found


@pytest.fixture
def case(reports, request):
    found = reports[request.param]
    if isinstance(found, str):
        pytest.skip(found)
    return {"asked": {**DEFAULTS, **CASES[request.param]}, **found}


def of(*names):
    return pytest.mark.parametrize("case", names, indirect=True)


def reported(case):
    """The report as a member's, which knows how it was started."""
    # On a busy machine waiting threads may come to rest after one of two looks.
    found = [case[report]["spin_s"] for report in ("first", "second")]
    spin_s = None if None in found else min(found)
    return convert(plain(READBACK) | case["first"] | {"spin_s": spin_s}, Readback)


@of(*CASES)
def test_what_was_asked_for_took_effect(case):
    rows = axis_table.checks(case["asked"], [UNBOUND], [reported(case)])
    assert [row for row in rows if not row.ok] == []
    assert "<jemalloc>" not in case["stderr"]  # it understands its settings


@of(*CASES)
def test_another_launch_did_not(case):
    """The checks that hold above do not hold whatever is read back."""
    for other, values in CASES.items():
        wanted = {**DEFAULTS, **values}
        names = ("blas", "allocator", "openmp")
        differing = {name for name in names if wanted[name] != case["asked"][name]}
        rows = axis_table.checks(wanted, [UNBOUND], [reported(case)])
        assert differing <= {row.axis for row in rows if not row.ok}, other


@of(*CASES)
def test_the_process_itself(case):
    for got in (case["first"], case["second"]):
        assert got["pid"] == case["pid"]
        assert got["cpus"] == sorted(os.sched_getaffinity(0))
        assert got["python"] == sys.executable
        assert got["os_threads"] >= got["intra_op"]
        assert got["sgemm_gflops"] > 0
        assert "PYTHONPATH" in got["env"]
        assert not {"PATH", "HOME", "KEY"} & set(got["env"])
    assert case["first"]["intra_op"] == case["asked"]["intra_op"]
    assert case["same"]  # the script's random numbers are as before
    # With 64-bit floats by default the probe would time another routine, half as fast.
    assert case["types"] == ["torch.float32"]


@of("bundled", "mkl, huge pages", "intel path, jemalloc")
def test_mkl_names_its_kernel(case):
    if not Path(case["first"]["sgemm"]).name.startswith(("libmkl", "libtorch")):
        pytest.skip("this torch is not built with MKL")
    kernel = case["first"]["sgemm_kernel"]
    assert kernel
    assert "Lnx" not in kernel
    assert "enabled processors" not in kernel


@of("openblas")
def test_openblas_names_its_kernel(case):
    assert case["first"]["sgemm_kernel"] == "Haswell"  # isa avx2 asks it to
    assert case["first"]["spin_s"] is None  # one thread waits for nobody


@of("bundled")
def test_pages_are_where_the_kernel_says_and_the_policy_is_the_heaps(case):
    got = case["first"]
    assert got["policy"] == "default"
    if Path("/proc/self/numa_maps").exists():
        pages = sum(got["pages_by_node"].values())
        assert pages * os.sysconf("SC_PAGE_SIZE") > 50 * 2**20  # torch alone is more
    literal = {"0": 21, "1": 531, "10": 3}
    assert case["literal"] == [["interleave:0-1", literal], ["default", literal]]
    assert case["nobody"] == [None, None]  # of a symbol that nobody has
