"""What each value of an axis does, what it needs, and when it is said to have taken effect."""

import sys
from pathlib import Path

import pytest

import machines
from axis_values import BLIS, LIBRARIES, MACHINE, OPENBLAS, TCMALLOC, prepare, read_back
from made_records import TORCH, hardware, slot
from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes import axis_table, libraries, threads
from scaling_study.launch.axes.axis_table import DEFAULTS

ARM = hardware(cpu_vendor="0x41", isa=("asimd", "sve", "bf16"))
BARE = hardware(libraries=dict.fromkeys(LIBRARIES), isa=("sse2",), thp="never")


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    """A library that a compiler would make."""
    monkeypatch.setattr(libraries, "intel_path_library", lambda folder, _: f"{folder}/intel.so")


def words():
    """Words of all axes but the switches, which are tried in test_switches.py."""
    return [
        (name, word)
        for name, axis in axis_table.AXES.items()
        if axis.apply is None or name == "inter_op"
        for word in axis.words
    ]


# ---- the table


@pytest.mark.parametrize(("name", "word"), words())
def test_every_word_has_an_effect_of_its_own(name, word):
    environment = prepare(**{name: word})
    if word == DEFAULTS[name]:
        assert environment == {}
    else:
        others = [w for w in axis_table.AXES[name].words if w != word]
        # Launchers differ by how they start a process, placements by where.
        if name not in {"launcher", "placement", "membind"}:
            assert environment not in [prepare(**{name: w}) for w in others]
            assert environment


@pytest.mark.parametrize(("name", "value"), [*words(), ("intra_op", 3), ("inter_op", 3)])
def test_an_axis_sets_only_variables_that_belong_to_it(name, value):
    # Dask's defaults are set below the axes that they belong to.
    owners = axis_table.AXES if value == "dask" else {name: axis_table.AXES[name]}
    owned = {variable for axis in owners.values() for variable in axis.variables}
    assert set(prepare(**{name: value})) <= owned


def test_no_variable_belongs_to_two_axes_but_the_preloads():
    owned = [variable for axis in axis_table.AXES.values() for variable in axis.variables]
    assert {variable for variable in owned if owned.count(variable) > 1} == {"LD_PRELOAD"}


BOUND_TO = {"placement": "cores", "openmp_affinity": "close"}


# ---- effects

DASK = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@pytest.mark.parametrize(
    ("values", "environment"),
    [
        ({"blas": "mkl"}, {"LD_PRELOAD": LIBRARIES["mkl"], "MKL_THREADING_LAYER": "GNU"}),
        ({"blas": "bundled-intel-path"}, {"LD_PRELOAD": "/builds/intel.so"}),
        ({"allocator": "lib/libmine.so"}, {"LD_PRELOAD": str(Path("lib/libmine.so").absolute())}),
        # distributed.yaml: the settings that dask/distributed#5098 is about.
        ({"launcher": "dask"}, {**dict.fromkeys(DASK, "1"), "MALLOC_TRIM_THRESHOLD_": "65536"}),
        (
            {"launcher": "dask", "intra_op": 4, "allocator": "glibc-large-thresholds"},
            {
                **dict.fromkeys((*DASK, "BLIS_NUM_THREADS"), "4"),
                "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
                "MALLOC_TRIM_THRESHOLD_": str(4 * 2**30),
            },
        ),
        (
            {"blas": "openblas", "allocator": "tcmalloc"},
            {"LD_PRELOAD": f"{LIBRARIES['openblas']}:{LIBRARIES['tcmalloc']}"},
        ),
    ],
)  # fmt: skip
def test_what_a_value_sets(values, environment):
    assert prepare(**values) == environment


KMP = {"close": "granularity=fine,compact", "spread": "granularity=fine,scatter"}


@pytest.mark.parametrize("openmp", ["bundled", "/x/libgomp.so.1", "intel", "/x/libomp.so"])
@pytest.mark.parametrize("value", KMP)
def test_threads_are_bound_as_the_runtime_understands_it(value, openmp):
    """Either way alone: with both, the bundled libgomp binds, and the preloaded one has one CPU."""
    found = prepare(**BOUND_TO | {"openmp": openmp, "openmp_affinity": value})
    found.pop("LD_PRELOAD", None)
    if openmp in {"bundled", "/x/libgomp.so.1"}:
        assert found == {"OMP_PROC_BIND": value, "OMP_PLACES": "threads"}
    else:
        assert found == {"KMP_AFFINITY": KMP[value]}


@pytest.mark.parametrize(
    ("environment", "long"),
    [
        ({}, False),
        ({"LD_PRELOAD": "/lib/libjemalloc.so.2:/env/lib/libiomp5.so"}, True),
        ({"LD_PRELOAD": "/lib/libomp.so.5", "KMP_BLOCKTIME": "0"}, False),
        ({"LD_PRELOAD": "/lib/libgomp.so.1"}, False),
    ],
)
def test_a_runtime_whose_threads_spin_beyond_a_windows_edge(environment, long):
    assert threads.spins_long(environment) == long


# ---- what a machine cannot do, or another axis excludes

OF_A_LOADER = {"intra_op": 1, "placement": "cores", "loader_cpus": "rest"}
REFUSED = [
    # the machine that cannot do it, values, in the reason, in the remedy
    (BARE, {"openmp": "intel"}, "libiomp5 is not installed", "pip install intel-openmp"),
    (BARE, {"blas": "mkl"}, "mkl is not installed", f"{sys.executable} -m pip install mkl"),
    (BARE, {"allocator": "jemalloc"}, "jemalloc is not installed", "apt install libjemalloc2"),
    (BARE, {"isa": "avx512"}, "no avx512f, avx512dq, avx512bw, avx512vl", "avx512"),
    (BARE, {"huge_pages": "always"}, "off", "/sys/kernel/mm/transparent_hugepage/enabled"),
    (BARE, {"autocast": "bf16"}, "no instructions for bf16", "AMX"),
    (BARE, {"matmul_precision": "bf16"}, "no instructions for bf16", "AMX"),
    (ARM, {"blas": "mkl"}, "for x86", "openblas"),
    (ARM, {"blas": "bundled-intel-path"}, "for x86", "openblas"),
    (ARM, {"isa": "avx2"}, "no avx2, fma", "a machine that has it"),
    (MACHINE, {"huge_pages": "always", "allocator": "jemalloc"}, "of jemalloc", "allocator: jem"),
    (MACHINE, {"launcher": "dask", "membind": "local"}, "that dask starts", "membind: local"),
    (MACHINE, BOUND_TO | {"placement": "none"}, "would share one CPU", "placement to cores"),
    (MACHINE, BOUND_TO | {"launcher": "dask"}, "launcher dask", "launcher exec"),
    (MACHINE, BOUND_TO | {"ranks": 2}, "ranks 2", "ranks none"),
    (MACHINE, {"launcher": "dask", "ranks": 2}, "exclude each other", "launcher exec"),
    (BARE, {"shell": ("mempolicy=bind:0",)}, "numa is not installed", "apt install libnuma1"),
    (MACHINE, BOUND_TO | OF_A_LOADER, "loader_cpus rest", "loader_cpus shared"),
    (MACHINE, OF_A_LOADER | {"placement": "none"}, "does not bind it", "placement to cores"),
    (MACHINE, OF_A_LOADER | {"intra_op": "default"}, "on how many CPUs", "intra_op to a number"),
    *(
        (MACHINE, {axis: path}, path, "ln -s")
        for axis in ("blas", "allocator", "openmp")
        for path in ("/with space/lib.so", "/with:colon/lib.so")
    ),
]


@pytest.mark.parametrize(("machine", "values", "reason", "remedy"), REFUSED)
def test_what_cannot_be_is_a_reason_with_a_remedy(machine, values, reason, remedy):
    with pytest.raises(UnavailableError) as caught:
        prepare(machine, **values)
    assert reason in caught.value.reason
    assert remedy in caught.value.remedy
    if machine is BARE:
        prepare(MACHINE, **values)


def test_each_bound_thread_has_a_cpu_of_its_slot():
    prepare(**BOUND_TO, intra_op=1)  # of no use, and no harm: it is tried on any launch
    topology = machines.topology("epyc-7451-2s")
    fitting = {"intra_op": 2, "placement": ["0-1", "2-3"], "openmp_affinity": "close"}
    assert [one.cpus for one in axis_table.place(fitting, topology, 2)] == [(0, 1), (2, 3)]
    narrow = fitting | {"placement": ["0-1", "2"]}
    with pytest.raises(UnavailableError) as caught:
        axis_table.place(narrow, topology, 2)
    assert "a slot has 1 for 2" in caught.value.reason
    assert "intra_op to at most 1" in caught.value.remedy
    axis_table.place(narrow | {"openmp_affinity": "default"}, topology, 2)


# ---- what took effect


def failed(readbacks, **values):
    rows = axis_table.checks(values, [slot()], readbacks)
    return {row.axis for row in rows if not row.ok}


INTEL = "/builds/intel.so"
LARGE = {"MALLOC_MMAP_THRESHOLD_": str(32 * 2**20), "MALLOC_TRIM_THRESHOLD_": str(4 * 2**30)}
TRIM = {"MALLOC_TRIM_THRESHOLD_": "65536"}


def preloaded(library, role):
    """What is read back where a library is preloaded and plays its role."""
    return {"preload": [library], role: library}


INTEL_OMP, LLVM_OMP = (preloaded(LIBRARIES[name], "parallel") for name in ("libiomp5", "libomp"))
JEMALLOC = preloaded(LIBRARIES["jemalloc"], "allocator") | {"jemalloc_decay_ms": 9_000_000_000}
IN_OPENBLAS, IN_BLIS = preloaded(OPENBLAS, "sgemm"), preloaded(BLIS, "sgemm")
IN_TCMALLOC, IN_INTEL = preloaded(TCMALLOC, "allocator"), preloaded(INTEL, "intel_path")
MINE, GOMP = "/opt/libmine.so", "/opt/libgomp.so.1"
BOUND = [{"thread_cpus": [[1], [0]]}]
# Not bound; to one CPU; to several; fewer threads than torch has.
UNBOUND = [{}, *({"thread_cpus": masks} for masks in ([[0], [0]], [[0], [0, 1]], [[0]]))]
PYTHON, PACKAGES = "/opt/py/bin/python", "/study/results/builds/torch-{}/bin/python"

RIGHT_AND_WRONG = [
    # axis, value, readbacks of members that got it, and of members that did not
    ("launcher", "exec", [{}], [{"launcher": "dask"}]),
    ("launcher", "dask", [{"launcher": "dask"}], [{"launcher": "exec"}]),
    ("build", PYTHON, [{"python": PYTHON}, {"python": "/opt/py/bin/../bin/python"}],
     [{}, {"python": f"{PYTHON}3"}]),
    ("build", "envs/torch-2.9.txt", [{"python": PACKAGES.format("2.9")}],
     [{}, {"python": PACKAGES.format("2.8")}]),
    ("intra_op", 1, [{"intra_op": 1}], [{}, {"intra_op": 11}]),
    ("inter_op", 1, [{"inter_op": 1}], [{}]),
    # One thread waits for nobody.
    ("wait_policy", "passive", [{"spin_s": 0.0004}, {"spin_s": None}], [{}, {"spin_s": 0.004}]),
    ("openmp", "bundled", [{}, {"parallel": "/lib/libgomp.so.1"}, {"parallel": None}], [INTEL_OMP]),
    ("openmp", "intel", [INTEL_OMP], [{}, LLVM_OMP, INTEL_OMP | {"parallel": None}]),
    ("openmp", "llvm", [LLVM_OMP], [{}, INTEL_OMP, {"preload": [LIBRARIES["libomp"]]}]),
    ("openmp", GOMP, [preloaded(GOMP, "parallel")], [{}, {"preload": [GOMP]}, LLVM_OMP]),
    ("openmp_affinity", "close", BOUND, UNBOUND),
    ("openmp_affinity", "spread", BOUND, UNBOUND),
    ("blas", "bundled", [{}, {"preload": [TCMALLOC]}],
     [IN_OPENBLAS, IN_OPENBLAS | {"preload": [TCMALLOC, OPENBLAS]}, IN_INTEL]),
    ("blas", "openblas", [IN_OPENBLAS, IN_OPENBLAS | {"preload": [OPENBLAS, TCMALLOC]}],
     # The second is preloaded, but torch's calls go elsewhere.
     [{}, {"preload": [OPENBLAS]}, {"sgemm": OPENBLAS}, IN_BLIS]),
    ("blas", "blis", [IN_BLIS], [IN_OPENBLAS, IN_BLIS | {"sgemm": None}]),
    ("blas", "mkl", [preloaded(LIBRARIES["mkl"], "sgemm")], [{"preload": [LIBRARIES["mkl"]]}]),
    ("blas", "bundled-intel-path", [IN_INTEL],
     [{}, {"preload": [INTEL]}, IN_INTEL | IN_OPENBLAS | {"preload": [INTEL, OPENBLAS]}]),
    ("blas", MINE, [preloaded(MINE, "sgemm")], [IN_OPENBLAS, {"preload": [MINE]}]),
    ("shell", ("KMP_BLOCKTIME=0", "cpus=0-1"),
     [{"env": {"KMP_BLOCKTIME": "0"}}, {"env": {"KMP_BLOCKTIME": "the script's"}}],
     [{}, {"env": TRIM}]),
    ("isa", "avx2", [{"isa": "AVX2"}], [{}, {"isa": "DEFAULT"}]),
    ("isa", "avx512", [{}], [{"isa": "AVX2"}]),
    ("allocator", "glibc",
     # The last has Dask's own default environment.
     [{}, {"allocator": "/lib/x86_64-linux-gnu/libc-2.31.so"}, {"env": TRIM, "launcher": "dask"}],
     [IN_TCMALLOC, {"allocator": "/opt/libcmalloc.so"}, {"allocator": None}, {"env": TRIM}]),
    ("allocator", "glibc-large-thresholds", [{"env": LARGE}],
     [{}, {"env": TRIM}, {"env": {**LARGE, **TRIM}}, {"env": LARGE, "allocator": TCMALLOC}]),
    ("allocator", "tcmalloc", [IN_TCMALLOC], [{}, {"preload": [TCMALLOC]}, JEMALLOC]),
    # The first did not take its settings.
    ("allocator", "jemalloc", [JEMALLOC], [JEMALLOC | {"jemalloc_decay_ms": 10_000}, IN_TCMALLOC,
                                           {"preload": [TCMALLOC], "allocator": None}]),
    ("allocator", "mimalloc", [preloaded(LIBRARIES["mimalloc"], "allocator")], [{}]),
    ("allocator", MINE, [preloaded(MINE, "allocator")], [{}, IN_TCMALLOC]),
    *(
        ("huge_pages", word, [{"huge_page_bytes": 2**21}], [{}, {"huge_page_bytes": None}])
        for word in ("always", "tensors")
    ),
    ("ranks", 2, [{"switches": {"ranks": 2}}],
     [{"switches": {"ranks": 1}}, {"switches": {"ranks": "joined nothing"}}]),
]  # fmt: skip


@pytest.mark.parametrize(("axis", "value", "right", "wrong"), RIGHT_AND_WRONG)
def test_a_check_holds_for_what_took_effect_and_for_nothing_else(axis, value, right, wrong):
    for got in right:
        assert axis not in failed([read_back(**got)], **{axis: value}), got
    for got in wrong:
        assert axis in failed([read_back(**got)], **{axis: value}), got
        # One member of several is enough.
        assert axis in failed([read_back(**right[0]), read_back(**got)], **{axis: value}), got


ANY_HOLDS = {
    "intra_op": 96, "inter_op": 5, "spin_s": None, "thread_cpus": [[0], [0]], "isa": "AVX2",
    "huge_page_bytes": 2**21, "python": PYTHON,
}  # fmt: skip


def test_a_default_holds_whatever_it_gives():
    """But where a library or a launcher is the default."""
    assert failed([read_back(**ANY_HOLDS)]) == set()


def test_every_word_is_checked_above():
    per_slot, fixed = {"placement", "membind"}, {"launcher", "blas", "openmp", "allocator"}
    assert {(axis, value) for axis, value, _, _ in RIGHT_AND_WRONG} >= {
        (axis, value)
        for axis, value in words()
        if axis not in per_slot and (axis in fixed or value != DEFAULTS[axis])
    }


@pytest.mark.parametrize(
    ("asked", "got", "wrong"),
    [
        ({}, {}, set()),
        ({"cpus": "0-1"}, {}, set()),
        ({"cpus": "0"}, {}, {"placement"}),
        ({"policy": "bind:0"}, {"policy": "bind:0"}, set()),
        ({"policy": "bind:0"}, {"policy": "bind:0-1"}, {"membind"}),
        ({"policy": "bind:0"}, {}, {"membind"}),
        ({"cpus": "1", "policy": "bind:0"}, {"cpus": [1]}, {"membind"}),
        ({"cpus": "0-3"}, {"thread_cpus": [[0], [1]]}, set()),  # bound by OpenMP within its slot
        ({"cpus": "0,2"}, {"thread_cpus": [[0], [1]]}, {"placement"}),
        ({"cpus": "0-3"}, {}, {"placement"}),
    ],
)
def test_a_member_is_compared_with_its_slot(asked, got, wrong):
    slots = [slot(**asked), slot(slot=1, cpus="0-1")]
    rows = axis_table.checks({}, slots, [read_back(**got), read_back(slot=1)])
    assert {row.axis for row in rows if not row.ok} == wrong
    for row in rows:
        if row.axis in wrong:
            assert row.requested.startswith("slot 0: ")
            assert row.effective.startswith("slot 0: ")


def test_a_library_is_compared_by_its_file_not_by_its_name(tmp_path):
    library = tmp_path / "libopenblasp-r0.3.21.so"
    library.touch()
    link = tmp_path / "libopenblas.so.0"
    link.symlink_to(library)
    got = read_back(preload=[str(link)], sgemm=str(library))
    assert "blas" not in failed([got], blas="openblas")
    assert "blas" not in failed([got], blas=str(link))


def test_what_is_shown_as_effective():
    got = read_back(sgemm_kernel="SkylakeX", sgemm_gflops=249.6, env=TRIM, thread_cpus=[[0], [1]])
    rows = {row.axis: row.effective for row in axis_table.checks({}, [slot()], [got])}
    assert rows["build"] == f"{sys.executable}, torch 2.13.0+cpu"
    assert rows["wait_policy"].startswith("15.0 ms of CPU time spent waiting")
    assert rows["blas"] == f"{TORCH}/libtorch_cpu.so (SkylakeX, 250 GF/s)"
    assert rows["openmp_affinity"] == "threads on CPUs 0 | 1"
    assert rows["allocator"].endswith("libc.so.6 MALLOC_TRIM_THRESHOLD_=65536")
