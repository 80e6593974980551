"""A thread as the kernel counts it."""

from scaling_study.host.kernel_counters import Thread


def thread(run_s, runqueue_s=0.0, *switches_and_migrations, ticks=(0, 0), cpus="0-1", last_cpu=0):
    counted = switches_and_migrations or (0, 0, 0)
    return Thread(run_s, runqueue_s, *ticks, *counted, cpus, last_cpu)
