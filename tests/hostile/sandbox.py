"""Runs a command as another user, without a network, on a copy of the whole file system.

The copy is an overlay (mount(8)) in a mount namespace of its own: every write of every process
lands in its upper folder, so that what a command wrote anywhere can be listed afterwards, and the
real files stay as they were. The network namespace has no interface but a loopback that is down.

``python sandbox.py CALL.json`` is the inner half, which `run` starts in the new namespaces. Both
need root; the command itself gets none of it.
"""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

# What runs the command: nobody's user and group (Debian's), without any capability.
NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
             "--no-new-privs", "--bounding-set=-all")  # fmt: skip
# Mounts that stand where the overlay shows empty folders.
KERNEL = ("proc", "sys", "dev")
MEMORY = "dev/shm"


@dataclass(frozen=True, slots=True)
class Done:
    """What a command did.

    Attributes:
        returncode: of the command.
        output: its standard output and standard error.
        written: files and folders that were new, changed or removed when it ended, without those
            that were made for it.
    """

    returncode: int
    output: str
    written: tuple[Path, ...]


def reason_against() -> str | None:
    """Say why no sandbox can be made here; None if it can."""
    if os.geteuid() != 0:
        return "an overlay of the whole file system needs root"
    missing = [name for name in ("unshare", "mount", "setpriv") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed"
    probe = run(["true"], cwd=Path("/"), kept=[])
    return None if probe.returncode == 0 else f"no overlay here: {probe.output.strip()}"


def run(command, *, cwd, kept, env=None, output=None):
    """Run a command in a sandbox.

    Args:
        command: its program and arguments.
        cwd: its working directory, which it may write, as it may a home and /tmp.
        kept: names in the working directory that are copied out of the sandbox afterwards.
        env: its whole environment; HOME is set.
        output: the folder that `kept` is copied to.
    """
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        (base / "top").mkdir()
        call = {"command": list(map(str, command)), "cwd": str(cwd), "kept": list(kept),
                "env": env or {}, "output": str(output or base / "kept")}  # fmt: skip
        (base / "call.json").write_text(json.dumps(call))
        done = subprocess.run(
            [
                "/usr/bin/unshare",
                "--mount",
                "--net",
                sys.executable,
                "-S",
                __file__,
                base / "call.json",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        listing = base / "done.json"
        if not listing.exists():
            return Done(done.returncode or 1, done.stdout + done.stderr, ())
        found = json.loads(listing.read_text())
        written = tuple(map(Path, found["written"]))
        return Done(found["returncode"], done.stdout + done.stderr, written)


def _mount(*options):
    subprocess.run(["/usr/bin/mount", *map(str, options)], check=True)


def _make(top):
    """Mount an overlay of / on ``top``/root; return it and the folder that gets all writes."""
    _mount("-t", "tmpfs", "none", top)
    upper, work, root = (top / name for name in ("upper", "work", "root"))
    for folder in (upper, work, root):
        folder.mkdir()
    _mount("-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={upper},workdir={work}", root)
    for name in KERNEL:
        _mount("--rbind", f"/{name}", root / name)
    _mount("-t", "tmpfs", "-o", "mode=1777", "none", root / MEMORY)
    return root, upper


def _states(upper, root):
    """Every file and folder in the upper folder, with its time of change."""
    places = [upper, root / MEMORY]
    states = {}
    for place in places:
        for path in place.rglob("*"):
            shown = Path("/" if place == upper else f"/{MEMORY}", path.relative_to(place))
            state = path.lstat()
            # A folder's own change is that of what lies in it, unless it is new.
            changed = 0 if stat.S_ISDIR(state.st_mode) else state.st_ctime_ns
            states[str(shown)] = changed
    return states


def _open_to_nobody(root, path):
    """Let everybody pass through the folders above a path, and read it."""
    for folder in Path(path).resolve().parents:
        place = root / folder.relative_to("/")
        place.chmod(place.stat().st_mode | 0o555)


def _inner(call_path):
    call = json.loads(call_path.read_text())
    root, upper = _make(call_path.parent / "top")
    home = root / "home/somebody"
    home.mkdir(parents=True)
    cwd = root / call["cwd"].lstrip("/")
    if call["cwd"] != "/":
        for path in [home, cwd, *cwd.rglob("*")]:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    for path in (call["cwd"] + "/x", sys.executable, sys.base_prefix + "/x", sys.prefix + "/x"):
        _open_to_nobody(root, path)
    before = _states(upper, root)
    done = subprocess.run(
        ["/usr/sbin/chroot", root, "/usr/bin/env", "-C", call["cwd"], "-i",
         *(f"{name}={value}" for name, value in {**call["env"], "HOME": "/home/somebody"}.items()),
         *AS_NOBODY, *call["command"]],
        check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    after = _states(upper, root)
    written = sorted(path for path in before.keys() | after.keys()
                     if before.get(path) != after.get(path))  # fmt: skip
    for name in call["kept"]:
        if (cwd / name).exists():
            shutil.copytree(cwd / name, Path(call["output"]) / name, symlinks=True)
    result = {"returncode": done.returncode, "written": written}
    (call_path.parent / "done.json").write_text(json.dumps(result))


if __name__ == "__main__":
    _inner(Path(sys.argv[1]))
