"""How many bytes a process has read, from wherever (/proc/PID/io in proc(5))."""

from pathlib import Path

from scaling_study.common.counter import Counter


def _read(pid):
    text = Path(f"/proc/{pid}/io").read_text()
    return int(text.partition("rchar:")[2].split()[0])


COUNTER = Counter("Bytes that were read, from wherever.", unit="", read=_read)
