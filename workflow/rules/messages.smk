"""What a run says and refuses at its start, and what it says at its end."""

import subprocess

from scaling_study.common import file_errors
from scaling_study.common.storage import read_json, write_json
from scaling_study.common.unavailable import UnavailableError
from scaling_study.runner import resolve
from scaling_study.report.study import (
    StudyInUseError,
    StudyLock,
    conclusion,
    look_around,
    outline,
    tell_stopped,
)


onstart:
    announce()


onsuccess:
    conclude()


onerror:
    explain()


def announce():
    """Say what will be done, and refuse to do it twice at once in one folder."""
    global study_lock
    try:
        study_lock = StudyLock(Path(RESULTS))
        if not IMPORTED:
            write_json(FOUND, SHELL)
            runs_in = resolve.check_workload(PLAN_JSON["workload"])
    except UnavailableError as error:
        raise WorkflowError(f"\n{error.reason}\n  What helps: {error.remedy}") from None
    except (StudyInUseError, UnusableError) as error:
        raise WorkflowError(f"\n{error}") from None
    except OSError as error:
        raise WorkflowError(f"\n{file_errors.describe(error) or error}") from None
    if IMPORTED:
        print(imported.outline(STUDY))
    else:
        refuse_one_machine_under_several_names()
        refuse_one_machine_as_several_nodes()
        for path in of_chosen(SCRIPT_ENDED):
            Path(path).unlink(missing_ok=True)
        records = of_chosen(RECORDS)
        measured = sum(Path(path).exists() for path in records)
        print(outline(PLAN, len(records), measured, CHOSEN))
        print(f"  runs in {runs_in}")
        # On a cluster other machines measure, and have not been chosen yet.
        left = RACED or measured < len(records)
        busy = look_around() if left and workflow.local_exec else ""
        confined = limits.tell_confined() if workflow.local_exec else ""
        for text in filter(None, (confined, busy)):
            print(text)


def refuse_one_machine_under_several_names():
    """Without a cluster all jobs run on this machine, which has one name."""
    if len(CHOSEN) > 1 and workflow.local_exec:
        alone = ("probe", "measure", "confirm", "profile", "why", "fingerprint", "feed")
        if any(job.rule.name.endswith(alone) for job in workflow.dag.needrun_jobs()):
            raise WorkflowError(
                f"\nThe config names the machines {', '.join(CHOSEN)}, and this run can only measure"
                " the one that it runs on. Say which that is, as in"
                f" --config {CHOICE}={CHOSEN[0]}, or run with a cluster's profile, as in"
                " --profile profiles/slurm."
            )


def refuse_one_machine_as_several_nodes():
    """Without a cluster all batches of a race come one after another: a round takes several times
    as long as its budget says."""
    if PLAN.search.nodes > 1 and workflow.local_exec:
        raise WorkflowError(
            f"\nThe config's race takes {PLAN.search.nodes} nodes (search.nodes), and this run"
            " measures on the one that it runs on. Set search.nodes to 1, or run with a cluster's"
            " profile, as in --profile profiles/slurm."
        )


def conclude():
    """Say what came out, leave what failed to the next run, and refuse to end without a result."""
    tell_conclusion()
    leave_to_the_next_run(raced=not IMPORTED and RACED)
    refuse_no_result()


def tell_conclusion():
    """Say what came out; a run that was asked for less than the report has nothing to say."""
    if Path(REPORT).exists() and (IMPORTED or Path(PLANNED).exists()):
        if IMPORTED:
            print(imported.conclusion(Path(RESULTS), Path(REPORT)))
        else:
            print(
                conclusion(
                    Path(RESULTS),
                    Path(PLANNED),
                    Path(REPORT),
                    compared=bool(MACHINES),
                )
            )


def leave_to_the_next_run(raced=False):
    """What lacks results loses its name, and stays a part: the next run goes on with it."""
    found = [] if IMPORTED else lacking(of_chosen(KEPT)).items()
    paths = [Path(path) for path, why in found if why != measure.SKIPPED]
    lame = rounds.without_result(Path(RESULTS)) if raced else []
    for path in [*paths, *lame, *([Path(RESULTS, "rounds/0.json")] if lame else [])]:
        path.unlink(missing_ok=True)


def refuse_no_result():
    """A study without any result has not succeeded."""
    asked = not IMPORTED and not workflow.dag_settings.targets
    paths = of_chosen(f"{HERE}/tables/cohorts.json") if asked else []
    found = [read_json(Path(path)) for path in paths if Path(path).exists()]
    cohorts = [cohort for one in found for cohort in one["cohorts"]]
    if found and not any(cohort["windows_valid"] for cohort in cohorts):
        raise WorkflowError(
            "\nThe study has no result: no window of any launch is valid. The report lists why."
            " Put that right and run the same command again: it measures what failed or was lost."
        )


def explain():
    """Say what to do after a failure, or a signal."""
    failed = (
        []
        if IMPORTED
        else [one for one in map(Path, of_chosen(SCRIPT_ENDED)) if one.exists()]
    )
    why = (
        f"{STOPPED[0]} stopped the study before its end."
        if STOPPED
        else "The study stopped before its end; the message above says why."
    )
    kept = (
        ""
        if IMPORTED
        else " Windows that were taken are kept: the same command goes on where it stopped."
    )
    print("\n".join(map(tell_stopped, failed)) or f"{why}{kept}", file=sys.stderr)
    if not IMPORTED and MACHINES:
        report_what_is_there()
    leave_to_the_next_run()


def report_what_is_there():
    """A machine that is not through does not keep the others from being reported."""
    if any(Path(path).exists() for path in expand(PROVENANCE, machine=MACHINES)):
        # Each says itself what is wrong where it fails.
        if not any(
            subprocess.run([sys.executable, *words]).returncode
            for words in (COMPARE, RENDER)
        ):
            tell_conclusion()


def after(theirs, ours):
    """A handler that calls the outer workflow's and then one of this file."""

    def both(log):
        theirs(log)
        ours()

    return both


# In a module Snakemake registers no handlers. One for all rules (use rule *) is enough.
if IN_MODULE and workflow.modifier.rule_whitelist is None:
    workflow._onstart = after(workflow._onstart, announce)
    workflow._onsuccess = after(workflow._onsuccess, conclude)
    workflow._onerror = after(workflow._onerror, explain)
