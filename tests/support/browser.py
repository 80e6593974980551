"""A real headless Chromium for tests of a page, driven over its DevTools pipe.

The pipe needs no port, no driver program and no further package: one JSON message to a NUL byte.
Protocol: https://chromedevtools.github.io/devtools-protocol/
"""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--remote-debugging-pipe",
)  # fmt: skip
PIPE_FD = 10  # of 3 and 4, where Chromium looks for the pipe, until the shell has put it there
TIMEOUT_S = 120.0


def executable() -> str | None:
    """Return the path of Chromium, or None where it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Page:
    """One tab. Everything that goes wrong in it is kept in ``problems``."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to = to_browser
        self._from = from_browser
        self._unread = b""
        self._id = 0
        self._session: str | None = None
        self._loaded = False
        self.problems: list[str] = []
        self.requests: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._id += 1
        message: dict[str, Any] = {"id": self._id, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            chunk = os.read(self._from, 1 << 20)
            if not chunk:
                raise RuntimeError("Chromium ended")
            self._unread += chunk
        text, _, self._unread = self._unread.partition(b"\0")
        message = json.loads(text)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Runtime.exceptionThrown":
                self.problems.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in {"error", "warning", "assert"}:
                self.problems.append(str(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] in {"error", "warning"}:
                self.problems.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])

    def open(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Load a file as a screen of this width shows it, and wait until it has loaded."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self._loaded = False
        self.send("Page.navigate", url=path.resolve().as_uri())
        end = time.monotonic() + TIMEOUT_S
        while not self._loaded:
            if time.monotonic() > end:
                raise TimeoutError(f"{path} did not load")
            self._read()

    def unfold(self) -> None:
        """Open all that is folded."""
        self.run("document.querySelectorAll('details').forEach(e => e.open = true)")

    def run(self, script: str) -> Any:
        """Evaluate an expression in the page and return its value."""
        how = {"returnByValue": True, "awaitPromise": True, "userGesture": True}
        answer = self.send("Runtime.evaluate", expression=script, **how)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press and release a key, such as ``press("Tab", 9)``."""
        event = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
        self.send("Input.dispatchKeyEvent", type="keyUp", text="", **event)


@contextlib.contextmanager
def browse() -> Iterator[Page]:
    """Start Chromium with a new profile and yield a tab; nothing of it is left afterwards."""
    program = executable()
    assert program is not None, "chromium is not installed"
    child_reads, to_browser = os.pipe()
    from_browser, child_writes = os.pipe()
    given = [fcntl.fcntl(fd, fcntl.F_DUPFD, PIPE_FD) for fd in (child_reads, child_writes)]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        shell = f'exec "$@" 3<&{given[0]} 4>&{given[1]}'
        command = [program, *QUIET, f"--user-data-dir={profile}"]
        process = subprocess.Popen(
            ["/bin/bash", "-c", shell, "bash", *command], pass_fds=given,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        for fd in (*given, child_reads, child_writes):
            os.close(fd)
        try:
            yield Page(to_browser, from_browser)
        finally:
            os.close(to_browser)  # Chromium ends when its pipe does
            os.close(from_browser)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
