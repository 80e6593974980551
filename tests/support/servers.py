"""A server of forked models, with packages of its own."""

import json
import os
import socket
import subprocess
import sys

from scaling_study.queues import model_server

ENDS = 60


def user_packages(folder):
    """Make user site-packages in a folder; return them, and the variables that name them."""
    packages = folder / "lib/python{}.{}/site-packages".format(*sys.version_info)
    packages.mkdir(parents=True, exist_ok=True)
    return packages, {"PYTHONUSERBASE": str(folder), "PYTHONPATH": str(packages)}


class Server:
    """A server of forked models, whose user site-packages are a folder of the test."""

    def __init__(self, folder, script, *options, **env):
        self.folder, self.imports = folder, folder / "imports.json"
        self._options = options
        self.packages, variables = user_packages(folder)
        (folder / "train.py").write_text(script)
        self.env = os.environ | variables | env
        self._count = 0

    def __enter__(self):
        self.line, theirs = socket.socketpair()
        words = ["--imports", str(self.imports), *self._options]
        self.process = subprocess.Popen(
            [sys.executable, model_server.__file__, *words, "--", "train.py"],
            cwd=self.folder, env=self.env, stdin=theirs, start_new_session=True,
        )  # fmt: skip
        theirs.close()
        self.answers = self.line.makefile("rb")
        return self

    def __exit__(self, *_):
        self.answers.close()
        self.line.close()
        self.process.wait(ENDS)

    def order(self, *arguments, log=None):
        self._count += 1
        log = log or self.folder / f"{self._count}.log"
        order = {"arguments": list(arguments), "log": str(log)}
        self.line.sendall(json.dumps(order).encode() + b"\n")
        return log

    def status(self):
        """Return how the model ended that was ordered."""
        assert int(self.answers.readline().split()[0])  # its process id
        return int(self.answers.readline().split()[0])

    def train(self, *arguments):
        """Return how a model ended: its status, and what it printed."""
        log = self.order(*arguments)
        return self.status(), log.read_text()

    def install(self, name, text=""):
        """Install a module that takes long enough to import."""
        (self.packages / f"{name}.py").write_text(f"{text}\nimport time; time.sleep(0.06)\n")

    def learnt(self):
        found = json.loads(self.imports.read_text())
        return found["modules"], found["left"]
