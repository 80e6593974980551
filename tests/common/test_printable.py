"""Why a program ended, by what it printed: real output of real programs."""

import pytest

from scaling_study.common.printable import last_words

CHAINED = """\
Traceback (most recent call last):
  File "/home/me/train.py", line 12, in load
    return cache[name]
KeyError: 'train'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/home/me/train.py", line 14, in load
    raise FileNotFoundError(path) from None
FileNotFoundError: /data/train.parquet
"""

ELASTIC = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/home/me/train.py", line 3, in <module>
[rank0]:     raise ValueError("loss is nan")
[rank0]: ValueError: loss is nan
E0101 10:00:00.000000 77 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1)
Traceback (most recent call last):
  File "/site-packages/torch/distributed/launcher/api.py", line 264, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
train.py FAILED
"""

LOADER = """\
Traceback (most recent call last):
  File "train.py", line 20, in <module>
    for batch in loader:
KeyError: Caught KeyError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "train.py", line 8, in __getitem__
    return rows[at]
KeyError: 'label'

Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f0000000000>
Traceback (most recent call last):
  File "/site-packages/torch/utils/data/dataloader.py", line 1618, in __del__
    self._shutdown_workers()
AssertionError: can only test a child process
"""

GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/home/me/train.py", line 3, in <module>
  |     raise ExceptionGroup("two readers failed", [ValueError("no rows"), OSError("gone")])
  | ExceptionGroup: two readers failed (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: no rows
    +---------------- 2 ----------------
    | OSError: gone
    +------------------------------------
"""

STATE = """\
Traceback (most recent call last):
  File "train.py", line 7, in <module>
    net.load_state_dict(torch.load(path))
RuntimeError: Error(s) in loading state_dict for Linear:
\tMissing key(s): "bias".
"""

ARGUMENTS = """\
usage: train.py [-h] --data DATA
                --lr LR
train.py: error: the following arguments are required: --data, --lr
"""

TERMINATED = """\
terminate called after throwing an instance of 'c10::Error'
  what():  CUDA error: out of memory
Exception raised from malloc at /pytorch/c10/core/alloc.cpp:12 (most recent call first):
"""

FATAL = """\
Fatal Python error: Segmentation fault

Current thread 0x00007f0000000000 (most recent call first):
  File "train.py", line 4 in <module>
"""

WARNED = """\
Traceback (most recent call last):
  File "train.py", line 9, in <module>
    raise MemoryError
MemoryError
/usr/lib/python3.11/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There \
appear to be 6 leaked semaphore objects to clean up at shutdown
  warnings.warn('resource_tracker: There appear to be %d '
"""

BAR = "Epoch 1:  10%|#  | 3/30 [00:01<00:09]\rEpoch 1:  13%|#  | 4/30 [00:01<00:09]"


@pytest.mark.parametrize(
    ("stderr", "expected"),
    [
        (CHAINED, "FileNotFoundError: /data/train.parquet"),
        (ELASTIC, "ValueError: loss is nan"),
        (LOADER, "KeyError: 'label'"),
        (GROUP, "ExceptionGroup: two readers failed (2 sub-exceptions)"),
        (STATE, 'RuntimeError: Error(s) in loading state_dict for Linear: Missing key(s): "bias".'),
        (ARGUMENTS, "train.py: error: the following arguments are required: --data, --lr"),
        (TERMINATED, "CUDA error: out of memory"),
        (FATAL, "Fatal Python error: Segmentation fault"),
        (WARNED, "MemoryError"),
        # After a bar of tqdm, on its line.
        (BAR + CHAINED, "FileNotFoundError: /data/train.parquet"),
        (BAR, "Epoch 1: 13%|# | 4/30 [00:01<00:09]"),
        ("Killed\n", "Killed"),
        ("no data is left\n\n", "no data is left"),
        ("\x1b[31mValueError: red\x1b[0m\n", "ValueError: red"),
    ],
)
def test_the_last_words_are_the_reason(stderr, expected):
    assert last_words(stderr, "SPS: 4510\n" * 50) == expected


@pytest.mark.parametrize(
    ("stderr", "stdout", "expected"),
    [
        ("", "step 1\nno GPU is here\n\n", "no GPU is here"),
        ("/a/b.py:3: UserWarning: old\n  warn('old')\n", "no GPU is here\n", "no GPU is here"),
        ("", "", ""),
        (" \n", "\n", ""),
    ],
)
def test_where_stderr_has_no_words_stdout_has(stderr, stdout, expected):
    assert last_words(stderr, stdout) == expected


def test_a_traceback_that_began_before_what_is_known_ends_with_its_exception():
    assert last_words(CHAINED[-60:]) == "FileNotFoundError: /data/train.parquet"
