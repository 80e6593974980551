"""Trains a little; its arguments, variables, names and output are whatever breaks a reader.

With several threads it fails after some steps, so that its output becomes part of the report. It
fails at once if its arguments or its environment are not, letter for letter, what the config says:
`texts.json` beside it has them.
"""

import json
import os
import sys
from pathlib import Path

import torch

known = json.loads(Path(__file__).with_name("texts.json").read_text(encoding="utf-8"))
told = sys.argv[1:]
if told[1:] != known["args"] or not told[0].isdigit():
    sys.exit("the arguments are not those of the config")
if any(os.environ.get(name) != text for name, text in known["env"].items()):
    sys.exit("the environment is not that of the config")

everything = "\n".join(known["args"])
print(everything, flush=True)
print(everything, file=sys.stderr, flush=True)
sys.stdout.buffer.write(b"\xff\xfe\x00\x1b[2Jno text\n")
sys.stdout.flush()

# A function whose name and file are hostile too: both become frames of a flamegraph.
source = "def named(step):\n    with torch.profiler.record_function(label):\n        step()\n"
scope = {"torch": torch, "label": known["label"]}
exec(compile(source, known["file"], "exec"), scope)  # noqa: S102 (a name for its frame)
named = scope["named"]
named.__code__ = named.__code__.replace(co_name=known["function"], co_qualname=known["function"])

model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.randn(512, 64)
targets = inputs.sum(dim=1, keepdim=True)


def step():
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()


# Outside of a study, where it is started by the launch script, some steps are enough.
for at in range(20_000 if "scaling_study" in sys.modules else 20):
    named(step)
    if at > 20 and torch.get_num_threads() > 1:
        raise RuntimeError(known["label"])
