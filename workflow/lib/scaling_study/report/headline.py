"""The first answer of a report: how much this machine gives, by default and with the best launch.

Only a confirmed number is a headline. Without a confirmation the word "predicted" stands in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scaling_study.analysis.noise import spread_at
from scaling_study.analysis.recommend import of_objective
from scaling_study.common.objectives import OBJECTIVES
from scaling_study.common.quantities import (
    format_count,
    format_number,
    format_percent,
    format_probability,
    format_ratio,
    format_time,
    known,
)
from scaling_study.config.work import differ
from scaling_study.launch.axes import shell
from scaling_study.report.headline_confirmed import (
    arm,
    confirmed_bars,
    confirmed_notes,
    confirmed_verdict,
    unconfirmed_note,
)
from scaling_study.report.headline_predicted import SURE, predicted_verdict
from scaling_study.report.headline_words import (
    NOUNS,
    THINGS,
    UNITS,
    Bar,
    Headline,
    Note,
    amount,
    at_best,
    compared,
    differs,
    gives,
    in_unit,
    name_launch,
    open_with,
    processes,
    small_print,
    span,
    sure,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ENOUGH_REPLICATES = 3
"""From so many on, two starts that happen to agree are not all that is seen of a launch."""
FEW_LOST = 3
"""So many launches are named; of more, the number."""


def write_headline(
    recommendation: Mapping[str, Any],
    noise: Mapping[str, Any] | None,
    *,
    replicates: int | None,
    failures: Mapping[str, Any] | None = None,
    confirmation: Mapping[str, Any] | None = None,
) -> Headline:
    """Word the first answer.

    Args:
        recommendation: one machine's entry of analysis/recommendation.json.
        noise: its entry of analysis/noise.json; None without a repeat of the baseline.
        replicates: what the plan asks for; None where a race decides it.
        failures: its entry of analysis/failures.json.
        confirmation: its entry of analysis/confirmation.json; None where there is none.
    """
    confirmed = None
    if confirmation is not None and confirmation["status"] == "confirmed":
        confirmed = arm(confirmation, "recommended")
    said = recommendation if confirmation is None or confirmed is None else confirmation
    asked = OBJECTIVES[said["objective"]]
    question = (
        f"How soon is {THINGS[asked.rate]} done on this machine?"
        if asked.single
        else f"How many {NOUNS[asked.rate]} does this machine give?"
    )
    if recommendation["status"] != "ok":
        return Headline(
            question, "Nothing to recommend", (), (Note(_sentence(recommendation["reason"]), True),)
        )
    lost = _lost_note(_lost(recommendation, failures) if failures else [])
    losses = {one["launch"]: one for one in (confirmation or {}).get("losses", ())}
    notes = [
        *_length_notes(
            said.get("model_length") or recommendation.get("model_length"), recommendation
        ),
        *_single_notes(recommendation),
        *_loss_notes(recommendation, losses),
        _changed_note(recommendation, losses),
        _today_note(recommendation),
        *_notes(recommendation, noise, replicates),
    ]
    if confirmation is None or confirmed is None:
        first = [unconfirmed_note(confirmation), _ratio_note(recommendation)]
        verdict, bars = predicted_verdict(recommendation, noise), _bars(recommendation)
    else:
        same = said["objective"] == recommendation["objective"]
        first = confirmed_notes(confirmation, confirmed, recommendation["ratio"] if same else None)
        verdict, bars = confirmed_verdict(confirmation, confirmed), confirmed_bars(confirmation)
    lost += _shared_files_note((failures or {}).get("shared_files", {}))
    shown = [note for note in (*lost, *first, *notes) if note.text]
    return Headline(question, verdict, bars, tuple(shown))


def _single_notes(recommendation: Mapping[str, Any]) -> list[Note]:
    """What the shortest time is of, and what the other objective would give."""
    asked = OBJECTIVES[recommendation["objective"]]
    if not asked.single:
        return []
    note = Note(f"{tell_throughput(recommendation)}.")
    if asked.rate == "models_per_hour":
        return [note]
    text = (
        "Launches were compared by the time of one step (of equal work, with its part of what lies "
        "between steps), without the start of a process."
    )
    return [Note(text), note]


def _length_notes(
    length: Mapping[str, Any] | None, recommendation: Mapping[str, Any]
) -> list[Note]:
    """How many steps a model has, where the script shows it (`work.model_length`)."""
    if length is None:
        return []
    rate = UNITS[OBJECTIVES[recommendation["objective"]].rate]
    if not length["starts"]:
        text = (
            f"No start of the script showed how many steps a model has, so {rate} are compared. "
            "For models/hour, set workload.steps_per_model: N, the number of steps of one model."
        )
        return [Note(text, True)]
    steps, seen = f"{length['steps']:,.0f}", format_count(length["starts"], "start")
    text = f"One model is {steps} steps, after which the script ended ({seen} seen to the end)."
    if differ(length):
        text = (
            f"Models differ in length: the script ended after {length['shortest']:,.0f} to "
            f"{length['longest']:,.0f} steps ({seen} seen to the end). Models/hour takes one for "
            f"{steps} steps, their mean. Where launches differ in the work of a step, set "
            "workload.samples_per_step."
        )
    if not recommendation["model_length"]["starts"]:
        text += f" No start ended before the confirmation, so launches were chosen by {rate}."
    return [Note(text, differ(length))]


def tell_throughput(recommendation: Mapping[str, Any]) -> str:
    """The point that gives most per hour, where one model soonest is what was looked for."""
    asked, most = OBJECTIVES[recommendation["objective"]], recommendation["throughput"]
    value = amount(of_objective(most, asked.rate)[0] or 0.0, asked.rate)
    time_s, *_ = of_objective(most, recommendation["objective"])
    return (
        f"Most {NOUNS[asked.rate]} of all points measured: {value} with {processes(most)} of "
        f"{name_launch(most)} ({THINGS[asked.rate]} takes {format_time(time_s or 0.0)}), predicted"
    )


def _loss_text(found: Mapping[str, Any]) -> str:
    """How a launch's loss is beside the baseline's."""
    if found["status"] != "ok":
        return f"Its loss could not be compared: {found['reason']}."
    low, high = min(found["baseline"]), max(found["baseline"])
    own = sum(found["losses"]) / len(found["losses"])
    how = "fell as the baseline's did" if found["alike"] else "did not fall as the baseline's did"
    return (
        f"Its loss {how}: {own:.4g} over the second half of {found['steps']} steps, "
        f"{low:.4g} to {high:.4g} in {len(found['baseline'])} runs of the baseline."
    )


def _loss_notes(
    recommendation: Mapping[str, Any], losses: Mapping[str, Mapping[str, Any]]
) -> list[Note]:
    """The same of what is recommended, where it computes with other numbers."""
    found = losses.get(recommendation["recommended"]["launch"])
    if found is None:
        return []
    start = "The recommended launch computes in another order or precision than the baseline."
    return [Note(f"{start} {_loss_text(found)}", not found["alike"])]


def _changed_note(
    recommendation: Mapping[str, Any], losses: Mapping[str, Mapping[str, Any]]
) -> Note:
    """What would give more, and is not recommended because it trains otherwise."""
    changed = recommendation.get("changed")
    if changed is None:
        return Note("")
    what = " and ".join(f"{name} {value}" for name, value in changed["what"].items())
    ratio = changed["ratio"]
    found = losses.get(changed["launch"])
    text = _loss_text(found) if found else "Compare the loss at equal samples before you use it."
    interval = sure(ratio, changed["replicates"])
    single = OBJECTIVES[recommendation["objective"]].single
    verb, much = ("is", "fast") if single else ("gives", "much")
    return Note(
        f"{changed['label']} with {processes(changed)} {verb} {format_ratio(ratio['value'])} as "
        f"{much} ({interval}). It is not recommended, because it changes training ({what}). {text}"
    )


def _today_note(recommendation: Mapping[str, Any]) -> Note:
    """What today's launch is."""
    today = recommendation.get("today")
    if today is None:
        return Note("")
    return Note(f"Today's launch is the default one with {shell.tell(today['shell'])}.")


def _lost(recommendation: Mapping[str, Any], failures: Mapping[str, Any]) -> list[str]:
    """Launches that were started and gave nothing: the best of the others may not be the best."""
    ranked = {entry["launch"] for entry in recommendation["ranking"]}
    points = [entry for entry in failures["points"] if entry["launch"] not in ranked]
    return list(dict.fromkeys(entry["label"] for entry in points))


def _lost_note(lost: Sequence[str]) -> list[Note]:
    if not lost:
        return []
    few = lost if len(lost) <= FEW_LOST else [*lost[:FEW_LOST], f"{len(lost) - FEW_LOST} more"]
    count = format_count(len(lost), "launch", "launches")
    text = f"{count} gave no valid window and could not be compared: {'; '.join(few)}."
    return [Note(text, True)]


def _shared_files_note(writers: Mapping[str, int]) -> list[Note]:
    if not writers:
        return []
    path = max(writers, key=lambda one: writers[one])
    more = f" (and {len(writers) - 1:,} more)" if len(writers) > 1 else ""
    text = (
        f"{writers[path]:,} processes write the same file, {path}{more}: each overwrites or mixes "
        "what the others write, and waits for the disk with them. Put {member} into the argument "
        'that names it, such as args: ["--out", "runs/{member}"].'
    )
    return [Note(text, warning=True)]


def _bars(recommendation: Mapping[str, Any]) -> tuple[Bar, ...]:
    """Today's, the same at the recommended count, default, recommended: what differs of them."""
    recommended, first = recommendation["recommended"], compared(recommendation)
    objective = recommendation["objective"]
    shown: list[tuple[str, str, Mapping[str, Any]]] = []
    for role in ("today", "default"):
        entry = recommendation.get(role)
        if entry is None or entry["launch"] == recommended["launch"]:
            continue
        shown.append((role, f"{at_best(entry)}: {processes(entry)}", entry))
        same = entry["at_n"] if first and entry["launch"] == first["launch"] else None
        if same is not None and same["n"] != entry["n"]:
            shown.append(
                ("same", f"{at_best(same, short=True)} with {processes(same)} as well", same)
            )
    label = recommended["label"]
    name = "Default launch" if label == "default" else f"Best launch found, {label}"
    shown.append(("recommended", f"{name}: {processes(recommended)}", recommended))
    values = [of_objective(entry, objective)[0] or 0.0 for _, _, entry in shown]
    scale, unit = in_unit(values, objective)
    return tuple(
        Bar(
            role,
            text,
            format_number(value / scale),
            unit,
            _interval(entry, objective, scale),
            value / max(values),
        )
        for (role, text, entry), value in zip(shown, values, strict=True)
    )


def _interval(entry: Mapping[str, Any], objective: str, scale: float) -> str:
    """The small print of a throughput, or of a time."""
    text = f"predicted, {small_print(*of_objective(entry, objective), unit=scale)}"
    if objective == "steps_per_s":
        return text
    beside = "models_per_hour" if objective == "model_s" else "steps_per_s"
    return f"{text}; {amount(entry[beside], beside)}"


def _notes(
    recommendation: Mapping[str, Any], noise: Mapping[str, Any] | None, replicates: int | None
) -> list[Note]:
    """What a careful reader wants to know next."""
    recommended, best = recommendation["recommended"], recommendation["best"]
    default = compared(recommendation) or recommended
    notes = []
    if (best["launch"], best["n"]) != (recommended["launch"], recommended["n"]):
        objective = recommendation["objective"]
        why = (
            "what the race chose: it takes out what the machine drifted between jobs, and of "
            "points that hardly differ it takes the one with the fewest changes and processes"
            if recommendation["raced"]
            else "the smallest number of processes within "
            f"{format_percent(recommendation['tolerance'])} of it"
        )
        single = OBJECTIVES[objective].single
        notes.append(
            Note(
                f"The {'shortest time' if single else 'highest throughput'} in windows, "
                f"{gives(best, objective)}, came with {processes(best)} of {name_launch(best)}. "
                f"Recommended is {why}."
            )
        )
    entries = (
        (recommended,) if default["launch"] == recommended["launch"] else (recommended, default)
    )
    if not OBJECTIVES[recommendation["objective"]].single:
        notes += [_retrograde(entry, noise) for entry in entries]
    notes.append(_aa_note(noise, sorted({recommended["n"], default["n"]})))
    seen = min(recommended["replicates"], default["replicates"])
    notes.append(_raced_note(seen) if replicates is None else _replicates_note(seen, replicates))
    return notes


def _retrograde(entry: Mapping[str, Any], noise: Mapping[str, Any] | None) -> Note:
    """Say where more processes give less."""
    most = entry["most"]
    if most is None or not differs(most["ratio"], spread_at(noise, most["n"], entry["n"])):
        return Note("")
    ratio = most["ratio"]
    if ratio["value"] > 1:
        return Note("")
    return Note(
        f"More processes give less: {name_launch(entry)} with {processes(most)} gives "
        f"{format_ratio(ratio['value'])} what it gives with {entry['n']:,} ({span(ratio)})."
    )


def _aa_note(noise: Mapping[str, Any] | None, counts: Sequence[int]) -> Note:
    """How far no difference reaches, at the process counts that are compared."""
    spread = spread_at(noise, *counts)
    if spread is None:
        return Note("The baseline was not repeated: this study has no A/A check.", True)
    at = " and ".join(f"{n:,}" for n in counts)
    noun = "process" if counts == [1] else "processes"
    return Note(
        f"The same launch measured twice differed by {format_percent(spread)} with {at} {noun} "
        "(A/A check): a smaller difference means nothing."
    )


def _raced_note(seen: int) -> Note:
    """The same in a race, which gives each launch as many starts as it is worth."""
    if seen >= ENOUGH_REPLICATES:
        return Note("")
    times = "once" if seen == 1 else "twice"
    return Note(
        f"At least one of these launches was started {times} only. Its interval rests on the "
        "spread of all launches together; a larger search.budget_minutes gives more starts."
    )


def _replicates_note(seen: int, replicates: int) -> Note:
    """How many starts stand behind the numbers, where these are few."""
    valid = min(seen, replicates)
    if valid >= ENOUGH_REPLICATES:
        return Note("")
    if valid < replicates:
        return Note(
            f"Only {valid} of {replicates} replicates were valid, so the intervals are wider. "
            "Rerun on a quieter machine, or raise measure.replicates.",
            True,
        )
    if valid == 1:
        return Note(
            "One start of each launch gives no interval. Set measure.replicates to 3.", True
        )
    return Note(
        "Each launch was started twice. Its interval rests on the spread of all launches together. "
        "If its starts have two modes, two starts can miss one: a third start tells more."
    )


def _ratio_note(recommendation: Mapping[str, Any]) -> Note:
    """The ratio with its interval, at each launch's own count and at the same count."""
    recommended, default = recommendation["recommended"], compared(recommendation)
    if default is None:
        return Note("The default launch gave no valid window: nothing to compare with.", True)
    ratio, same = recommendation["ratio"], recommendation["ratio_same_n"]
    if recommended["launch"] == default["launch"] or ratio is None:
        return Note("")
    each = f"each at its best ({recommended['n']:,} against {processes(default)})"
    text = f"{open_with(recommended)} over {name_launch(default)}, {each}: {_bracketed(ratio)}."
    if same is not None and recommended["n"] != default["n"]:
        text += f" With {processes(recommended)} each: {_bracketed(same)}."
    return Note(text)


def _bracketed(ratio: Mapping[str, Any]) -> str:
    interval = span(ratio)
    return f"{format_ratio(ratio['value'])}{f' (95% interval {interval})' if interval else ''}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def describe_sureness(recommendation: Mapping[str, Any]) -> str:
    """How sure it is that the recommended launch is the best one, and what comes closest."""
    recommended = recommendation["recommended"]
    probability = recommended["probability_best"]
    if not known(probability):
        return "No launch has two replicates, so there is no telling how sure this is."
    text = (
        f"Probability that no launch of this study is more than "
        f"{format_percent(recommendation['tolerance'])} faster: {format_probability(probability)}."
    )
    others = [row for row in recommendation["ranking"] if row["launch"] != recommended["launch"]]
    if known(probability) and probability < SURE and others:
        objective = recommendation["objective"]
        text += f" The closest other is {name_launch(others[0])} with {processes(others[0])}: "
        text += (
            f"{gives(others[0], objective)} against {gives(recommended, objective)}."
            if OBJECTIVES[objective].single
            else f"{format_number(others[0]['steps_per_s'])} against "
            f"{format_number(recommended['steps_per_s'])} steps/s."
        )
    return text
