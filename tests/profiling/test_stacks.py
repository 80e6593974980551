"""py-spy's raw text to time per step, on made-up lines and on real output."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaling_study.profiling import stacks
from scaling_study.profiling.stack_frames import clean_name, read_frame
from scaling_study.records.profile import Turn

HEAD = 'process 10:"python -m scaling_study.member.worker /f 0 -- train.py";thread (10): MainThread'
WORKER = "serve (scaling_study/member/worker.py:283);run (scaling_study/member/worker.py:251)"


def read(tmp_path, lines, **options):
    (tmp_path / "stacks.raw").write_text("\n".join(lines) + "\n")
    given = {"seconds": 10.0, "steps": 100, "trainer_tid": 10, **options}
    turn = Turn(slot=0, pid=10, samples=1, file="stacks.raw", **given)
    return stacks.read_point(tmp_path, [turn], step_s=0.09)


def line(*frames, count=1, head=HEAD):
    return ";".join((head, *frames)) + f" {count}"


@pytest.mark.parametrize(
    "command",
    [
        "python -c from multiprocessing.spawn import spawn_main; spawn_main(5) --x",
        'python -c print(";");thread',
        "python -c import x\nx.run() 7",
    ],
)
def test_a_command_line_may_hold_anything(command):
    text = f'process 10:"python";process 12:"{command}";thread (12): MainThread;a (x.py:1) 4\n'
    (sample,) = stacks.parse(text)
    assert (sample.processes, sample.tid) == ([10, 12], 12)
    assert ([frame.text for frame in sample.frames], sample.count) == (["a (x.py)"], 4)


@given(
    st.lists(st.text(string.ascii_letters + string.digits + "_:<>(), *&~", min_size=1), max_size=9)
)
def test_any_frame_is_read_without_an_error(names):
    for name in names:
        read_frame(f"{name} (libtorch_cpu.so)")
        read_frame(name)
        clean_name(name)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["", ""], r"stacks\.raw: no stacks"),
        ([line("a (x.py:1)"), "Error: failed"], "line 2: a stack without a number"),
        ([line("wait (threading.py:300)", head=HEAD.replace("(10)", "(77)"))], "no thread trains"),
    ],
)
def test_a_file_without_the_trainers_stacks_is_an_error(tmp_path, lines, message):
    with pytest.raises(stacks.StackError, match=message):
        read(tmp_path, lines)


def test_the_trainer_is_found_where_ids_are_not_the_kernels(tmp_path):
    trainer = HEAD.replace("thread (10)", "thread (0x7F1200)")
    other = HEAD.replace("thread (10): MainThread", "thread (0x7F1300): monitor")
    lines = [
        line("wait (threading.py:300)", head=other, count=90),
        line("<module> (train.py:8)", "a (x.py:1)", head=trainer, count=80),
    ]
    folded = read(tmp_path, lines)
    assert (folded.samples, folded.sampled_step_s) == (80, pytest.approx(0.1))


def test_threads_and_children_are_roots_of_their_own(tmp_path):
    other = HEAD.replace("thread (10): MainThread", "thread (11): Thread-4")
    child = HEAD.replace(";thread (10)", ';process 12:"python";thread (12)')
    folded = read(
        tmp_path,
        [
            line("a (x.py:1)", count=10),
            line("b (x.py:1)", head=other),
            line("wait (threading.py:300)", head=other, count=9),
            line("fetch (torch/utils/data/_utils/fetch.py:5)", head=child),
            line("get (queue.py:5)", head=child),
        ],
    )
    assert set(folded.stacks) == {
        ("trainer", "running", "phase: other", "a (x.py)"),
        ("other threads", "thread: Thread", "b (x.py)"),
        ("other threads, waiting", "thread: Thread", "wait (threading.py)"),
        ("child processes", "thread: MainThread", "fetch (torch/utils/data/_utils/fetch.py)"),
        ("other threads, waiting", "child processes", "thread: MainThread", "get (queue.py)"),
    }
    # Each thread's time is per step of the trainer.
    seconds = folded.stacks["other threads", "thread: Thread", "b (x.py)"]
    assert seconds == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("leaf", "wait"),
    [
        ("0x7f2210a3 (libgomp-24e2ab19.so.1.0.0)", "for OpenMP threads"),
        ("__kmp_hyper_barrier_release (libiomp5.so)", "for OpenMP threads"),
        ("__futex_abstimed_wait_common (libc.so.6)", "for a lock or a thread"),
        ("epoll_wait (libc.so.6)", "for input or output"),
        ("wait (threading.py:320)", "for a lock or a thread"),
        ("select (selectors.py:415)", "for input or output"),
        ("at::native::wait (libtorch_cpu.so)", ""),
        ("get (torch/utils/data/dataset.py:3)", ""),
        ("read_csv (pandas/io.py:3)", ""),
    ],
)
def test_waiting_is_told_from_running_by_the_innermost_frame(tmp_path, leaf, wait):
    static = 2 * ["0x7f11 (libc.so.6)"]
    for below, expected in (([], wait), (static, wait), (["b (libtorch_cpu.so)"], "")):
        (stack,) = read(tmp_path, [line("a (x.py:1)", leaf, *below)]).stacks
        assert stack[1] == (f"waiting {expected}" if expected else "running")


CPU_KERNEL = (
    "void at::native::(anonymous namespace)::cpu_kernel_vec<true, at::f(int)::{lambda(float)#1}, "
    "std::function<void (int)> >(at::TensorIteratorBase&, long) [clone .isra.0]"
)
OPTIMIZER = ("wrapper (torch/optim/optimizer.py:517)", "step (torch/optim/adamw.py:30)")
CLOSURE = (
    *OPTIMIZER,
    "timed_closure (scaling_study/member/member.py:140)",
    "closure (lightning/closure.py:3)",
)


@pytest.mark.parametrize(
    ("frames", "phase"),
    [
        (OPTIMIZER, "optimizer"),
        (CLOSURE, "forward"),
        (
            (*CLOSURE, "backward (torch/autograd/__init__.py:120)", "mm (libtorch_cpu.so)"),
            "backward",
        ),
        ((*CLOSURE, "_call_impl (torch/nn/modules/module.py:1)"), "forward"),
        (("fetch (torch/utils/data/_utils/fetch.py:100)", "f (data.py:1)"), "load"),
        (("torch::autograd::Engine::thread_main (libtorch_cpu.so)", "m (x.so)"), "backward"),
        (("print (x.py:1)",), "other"),
    ],
)
def test_the_innermost_frame_that_has_a_phase_decides(tmp_path, frames, phase):
    (stack,) = read(tmp_path, [line(WORKER, "<module> (train.py:5)", *frames)]).stacks
    assert stack[2] == f"phase: {phase}"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (CPU_KERNEL, "at::native::cpu_kernel_vec"),
        ("at::_ops::mul_Tensor::call(at::Tensor const&)", "at::_ops::mul_Tensor::call"),
        (
            "at::parallel_for<f>(long)::{lambda(int, int)#2}::operator()(int, int) const",
            "at::parallel_for::{lambda}::operator()",
        ),
        ("std::ostream& operator<< <char>(std::ostream&, char const*)", "operator<<"),
        ("torch::autograd::operator<(A<int> const&, B)", "torch::autograd::operator<"),
        ("pthread_cond_wait@@GLIBC_2.3.2", "pthread_cond_wait"),
        ("<lambda>", "<lambda>"),
        ("a > b", "b"),
    ],
)  # fmt: skip
def test_names_of_templates_are_their_paths(name, short):
    assert clean_name(name) == short


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0x7f00aa (libgomp-24e2ab19.so.1.0.0)", "[libgomp.so]"),
        ("0x7f00aa (/usr/lib/libc.so.6)", "[libc.so]"),
        ("0x7f00aa", "[unknown]"),
        ("0x7f00aa ([vdso])", "[vdso]"),
        ("f (torch/_C.cpython-311-x86_64-linux-gnu.so)", "f (_C.so)"),
        ("<module> (train.py:12)", "<module> (train.py)"),
        ("_find (<frozen importlib._bootstrap>:120)", "_find (<frozen importlib._bootstrap>)"),
    ],
)
def test_addresses_lines_and_versions_are_folded(text, shown):
    assert read_frame(text).text == shown


@pytest.mark.parametrize("folder", ["", "/study/workflow/lib/", "/env/lib/site-packages/"])
def test_a_member_outside_of_its_window_does_not_count(tmp_path, folder):
    park = f"park ({folder}scaling_study/member/member.py:113)"
    start = f"start ({folder}scaling_study/launch/launchers/launcher.py:200)"
    folded = read(tmp_path, [line(start, "a (x.py:1)"), line("a (x.py:1)", park, count=3)])
    assert [*folded.stacks] == [("trainer", "running", "phase: other", "a (x.py)")]
    assert (folded.samples, folded.sampled_step_s) == (1, pytest.approx(0.1 / 4))


# ---- members that are sampled in turn

FRAME = "run (train.py:4)"


def test_stacks_of_turns_are_means_over_all_their_steps(tmp_path):
    turns = []
    # A step of the first member takes 0.1 s, one of the second 0.2 s.
    for number, mul, mm, steps in ((0, 90, 10, 100), (1, 30, 30, 50)):
        file = f"stacks-{number}.raw"
        lines = (line(FRAME, "mul (libtorch.so)", count=mul), line(FRAME, f"mm{number}", count=mm))
        (tmp_path / file).write_text("\n".join(lines) + "\n")
        turns.append(
            Turn(slot=0, pid=10, samples=1, file=file, seconds=10.0, steps=steps, trainer_tid=10)
        )
    folded = stacks.read_point(tmp_path, turns, step_s=0.12, label="default")
    assert (folded.samples, folded.step_s, folded.label) == (160, 0.12, "default")
    assert folded.sampled_step_s == pytest.approx(20 / 150)
    assert folded.sample_s == pytest.approx(20 / 150 / 160)
    assert folded.native
    assert {stack[-1].split(" ")[0]: seconds for stack, seconds in folded.stacks.items()} == {
        "mul": pytest.approx((9.0 + 5.0) / 150),
        "mm0": pytest.approx(1.0 / 150),
        "mm1": pytest.approx(5.0 / 150),
    }
