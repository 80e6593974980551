"""How long a script waits by itself (time.sleep)."""

import time

from scaling_study.common.counter import Counter


def _time(add):
    sleep, now = time.sleep, time.perf_counter_ns

    def timed(seconds):
        began = now()
        sleep(seconds)
        add(now() - began)

    time.sleep = timed


COUNTER = Counter("Time in time.sleep, in whatever phase.", time=_time)
