"""Single changes inside a member: each takes effect, and says so."""

import json
import subprocess
import sys

import pytest

CODE = """
import gc, json, torch
from scaling_study.member import changes
from torch.utils.data import DataLoader, TensorDataset

drawn = []
class Counting(TensorDataset):
    def __getitem__(self, index):
        drawn.append(index)
        return super().__getitem__(index)

class Counted:
    ended = 0
    def __del__(self):
        Counted.ended += 1

before = changes.effective()
changes.CHANGES[NAME](None, [])
loader = DataLoader(Counting(torch.arange(100.0)), batch_size=5)
epochs = [[float(batch[0][0]) for batch in loader] for _ in range(2)]
knot = Counted()
knot.itself = knot
del knot
gc.collect()
print(json.dumps({"before": before, "after": changes.effective(), "epochs": epochs,
                  "drawn": len(drawn), "ended": Counted.ended, "impossible": changes.impossible()}))
"""


def told(code):
    return json.loads(subprocess.check_output([sys.executable, "-c", code], text=True))


def changed(name):
    return told(CODE.replace("NAME", repr(name)))


@pytest.mark.parametrize("name", ["flush_denormals", "no_gc", "whole_batches", "quick_switches"])
def test_a_change_takes_effect_alone(name):
    found = changed(name)
    assert not any(found["before"].values())
    assert [key for key, holds in found["after"].items() if holds] == [name]
    assert found["ended"] == (name != "no_gc")  # nothing is collected, asked for or not


def test_a_data_set_is_asked_for_whole_batches_where_they_are_the_same_rows():
    found = changed("whole_batches")
    assert found["drawn"] == 40 + 4  # one call for a batch; three rows, and the same at once
    assert found["epochs"] == changed("no_gc")["epochs"]
    assert found["impossible"] == {}


def test_looking_at_whole_batches_leaves_the_data_set_as_it_is_and_fails_nothing():
    code = """
import json, torch
from scaling_study.member import loader_substitutes
from torch.utils.data import DataLoader, Dataset

class Lazy(Dataset):
    file = None

    def __len__(self):
        return 8

    def __getitem__(self, index):
        self.file = self.file or open("/dev/null")
        return torch.arange(8.0)[index]

class Unsized(Lazy):
    __len__ = None

class Uneven(Lazy):
    def __getitem__(self, index):
        return torch.zeros(1 if isinstance(index, list) else index + 1)

class Words(Lazy):
    def __getitem__(self, index):
        import numpy
        return numpy.array(list("abcdefgh"))[index]

found = {}
for kind in (Lazy, Unsized, Uneven, Words):
    sampler = [[0, 1], [2, 3]]
    loader = DataLoader(kind(), batch_sampler=sampler)
    found[kind.__name__] = [loader_substitutes.whole_possible(loader), loader.dataset.file is None]
print(json.dumps(found))
"""
    assert told(code) == {
        "Lazy": [True, True], "Unsized": [False, True], "Uneven": [False, True],
        "Words": [False, True],
    }  # fmt: skip
