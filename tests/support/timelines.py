"""Rounds of a confirmation, as slots would make them that train one model after another."""

from scaling_study.records.confirmation import ModelRun, Round

PER_HOUR = 3600


def queue(slot, models, cut_s, *, way="fresh", gap_s=0.0):
    """A slot's starts until the cut; each model is (start, iterations, iteration, end), in s."""
    runs, at_s = [], 0.0
    for number, (start_s, iterations, iteration_s, end_s) in enumerate(models):
        if at_s >= cut_s:
            break
        first_s = at_s + start_s + iteration_s
        done = int((cut_s - first_s) / iteration_s + 1 + 1e-9) if first_s <= cut_s else 0
        done = min(done, iterations)
        ended_s = at_s + start_s + iterations * iteration_s + end_s
        ahead = way == "forked" and number > 0
        one = ModelRun(
            slot=slot, model=number, ahead=ahead, iterations=done,
            ordinary_s=iteration_s if done > 1 else None, began_s=at_s,
            first_s=first_s if done else None,
            latest_s=first_s + (done - 1) * iteration_s if done else None,
            ended_s=ended_s if ended_s <= cut_s else None,
        )  # fmt: skip
        runs.append(one)
        at_s = ended_s + gap_s
    return runs


def record(slots, cut_s, way="fresh"):
    runs = [one for runs in slots for one in runs]
    return Round(
        turn=0, arm=f"recommended/{way}", status="ok", reason=None, limit_s=cut_s, cut_s=cut_s,
        frequency_mhz=None, foreign_cpu_s=0.0, runs=runs,
    )  # fmt: skip


TYPICAL = (5.0, 500, 0.005, 0.5)  # 8 s
