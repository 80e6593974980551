"""The time of day jumps by an hour and back, all the time: no duration may notice."""

import ast
import shutil
import subprocess
import time

import pytest

from faulty import FaultyStudy, records
from jobs import ROOT

pytestmark = pytest.mark.faults

WINDOWS = 6
HOUR_S = 3600

# Whoever asks the C library for the time of day gets one that goes back and forth by an hour from
# call to call; all other clocks are as they are.
STEPPING = r"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long step(void) {
    static volatile unsigned calls;
    return __sync_fetch_and_add(&calls, 1) % 2 ? 3600 : -3600;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    int of_day = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (!failed && of_day) now->tv_sec += step();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int failed = syscall(SYS_gettimeofday, now, zone);
    now->tv_sec += step();
    return failed;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("clock")
    (folder / "clock.c").write_text(STEPPING)
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", "clock.so", "clock.c"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "clock.so"


def test_no_duration_notices(tmp_path, library, record_property, monkeypatch):
    study = FaultyStudy(tmp_path, measure={"windows": WINDOWS})
    monkeypatch.setenv("LD_PRELOAD", str(library))
    asked = ["python3", "-c", "import time; print(abs(time.time() - time.time()))"]
    shown = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert float(shown.stdout) > HOUR_S  # it really jumps
    fault = study.fault("a clock that jumps by hours", record_property)
    began = time.monotonic()
    done = study.snakemake(*study.files)
    took_s = time.monotonic() - began
    assert done.returncode == 0, done.stdout + done.stderr
    fault.leaves(planned={1: WINDOWS, 2: WINDOWS})
    (found,) = records(study.results).values()
    assert found[-1]["status"] == "complete"
    assert 0 < found[-1]["start_s"] < found[-1]["wall_s"] < took_s
    for window in (record for record in found if record["kind"] == "window"):
        assert 0.1 < window["window_s"] < 3.5
        for member in window["members"]:
            assert sum(member["step_us"]) / 1e6 <= window["window_s"]
            assert member["active_s"] < 4


def test_nothing_that_lasts_is_measured_by_the_time_of_day():
    """The time of day is only for people, and to compare with the times of files."""
    of_day = {"time.time", "time.time_ns", "datetime.now", "datetime.today", "datetime.utcnow"}
    asked = [
        f"{path.stem} {ast.unparse(node)}"
        for path in (ROOT / "workflow/lib/scaling_study").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in of_day
    ]
    assert sorted(asked) == [
        *(f"{name} datetime.now" for name in ("cli", "confirm", "experiment", "measure")),
        *(f"{name} datetime.now" for name in ("microbenchmarks", "model_queue", "model_queue")),
        "progress time.time",
    ]
