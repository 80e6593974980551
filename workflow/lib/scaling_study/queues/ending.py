"""The end of a program, as Python ends it (Py_FinalizeEx), in a process that keeps its modules.

Unloading torch takes a second. Threads are joined, exit handlers run and files are flushed before
the process ends by itself, becomes another program or runs the script again. Standard library only;
this file is loaded by its path in servers.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import io
import os
import signal
import site
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

UNWRITTEN = 120  # Python's exit status if its output cannot be written

LIBC = ctypes.CDLL(None)

# Where modules are that do not belong to the script.
INSTALLED = (sys.prefix, sys.base_prefix, site.getusersitepackages())


def finish() -> bool:
    """End the program in this process; return whether all its output could be written."""
    threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001 (as Py_FinalizeEx)
    with contextlib.suppress(BaseException):  # Python 3.9 raises what it has printed
        atexit._run_exitfuncs()  # noqa: SLF001 (as above)
    written = _flush()  # first: collecting may close a file below the buffer that holds text
    gc.collect()  # frees what the script's globals hold
    return _flush() and written


def end(status: int) -> NoReturn:
    """End the program and this process, as Python would.

    Args:
        status: the exit status; below 0, the signal to end by.
    """
    written = finish()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status if written or status else UNWRITTEN)


def _flush() -> bool:
    """Flush the files that the script has not closed; return whether all could be written."""
    done = True
    for stream in [sys.stdout, sys.stderr, *filter(_is_file, gc.get_objects())]:
        try:
            # A stream of the script's own need not say whether it is closed.
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except Exception:  # noqa: BLE001 (such a stream may raise anything)
            done = False
    LIBC.fflush(None)
    return done


def _is_file(candidate: object) -> bool:
    return type(candidate) in {io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom}


# ---- where the process runs the script again


class Starts:
    """Ends one start of a script after the other in a process that goes on.

    Exit handlers that libraries register while they are imported run at the process's end only:
    many leave their library unusable. Those that the script registers run at the end of its start.
    """

    def __init__(self) -> None:
        self._handlers: list[tuple[Callable[..., object], Any, Any]] = []
        self._anew = False
        self._threads = set(threading.enumerate())
        self._streams = sys.stdout, sys.stderr, sys.excepthook
        weakref.finalize(self, int)  # registers its exit handler, which ends all finalizers
        register, unregister = atexit.register, atexit.unregister

        def note(call: Callable[..., T], /, *args: object, **kwargs: object) -> Callable[..., T]:
            frame = sys._getframe(1)  # noqa: SLF001 (CPython's, as documented)
            while frame.f_back is not None and frame.f_code.co_name != "<module>":
                frame = frame.f_back
            if frame.f_globals.get("__name__") == "__main__":
                self._handlers.append((call, args, kwargs))
            elif not frame.f_code.co_filename.startswith(("<", *INSTALLED)):
                self._anew = True  # a module of the script, which registers it only once
            return register(call, *args, **kwargs)

        def forget(call: Callable[..., object]) -> None:
            self._handlers = [handler for handler in self._handlers if handler[0] != call]
            unregister(call)

        atexit.register, atexit.unregister = note, forget

    def end(self) -> bool:
        """End a start; return False if only the end of the process can end all of it."""
        pools = getattr(sys.modules.get("concurrent.futures.thread"), "_threads_queues", {})
        # Dask runs a script in a thread beside its own ones, which do not end with it.
        alone = threading.current_thread() is threading.main_thread()
        for thread in set(threading.enumerate()) - self._threads if alone else ():
            target = getattr(thread, "_target", None)
            owners = {type(thread).__module__, getattr(target, "__module__", None)}
            if thread in pools or (thread.daemon and "__main__" in owners):
                return False  # it runs until Python ends
            if not thread.daemon:
                thread.join()
        while self._handlers:
            call, args, kwargs = self._handlers.pop()
            atexit.unregister(call)
            try:
                call(*args, **kwargs)
            except BaseException:  # noqa: BLE001 (Python prints it and goes on)
                sys.__excepthook__(*sys.exc_info())
        _flush()
        sys.stdout, sys.stderr, sys.excepthook = self._streams
        # The script's globals refer to each other: its model and data would stay in memory.
        sys.modules["__main__"].__dict__.clear()
        gc.unfreeze()
        collect()
        return not (self._anew or has_children())


collect = gc.collect  # the module's own may be replaced: changes.py


def has_children() -> bool:
    """Return whether this process has a child that it has not waited for."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
