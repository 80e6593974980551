"""A small study that is run through the cluster's profile, and what its jobs leave."""

from cluster import command, wait_until
from configs import short
from jobs import processes
from projects import SHORT, Project
from scaling_study.common import private
from scaling_study.runner.journal import read_part

NAME = "small"
OPTIONS = ("--profile", "profiles/slurm")

# Far more than starting a job and taking a few windows takes on a busy machine.
PATIENCE_S = 300

# Both nodes of the tests' SLURM are one machine: only one of a study's jobs may run at a time.
ONE_MACHINE = ("--set-resource-scopes", "quiet=global")

MEASURE = {**SHORT, "replicates": 2, "retries": 0}


def config(**sections):
    """Three launches of a script that imports torch only; sections replace those of its name."""
    return short(**{"study": NAME, "measure": dict(MEASURE), **sections})


class Study(Project):
    """A copy of the project whose jobs go to SLURM."""

    def __init__(self, folder, slurm):
        super().__init__(folder)
        self.slurm = slurm
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.snakemake_process = None

    def environment(self):
        # Marks all that the study starts, on all nodes: sbatch passes the environment on.
        return {**super().environment(), "TMPDIR": str(self.temporary)}

    def snakemake(self, *options):
        return super().snakemake(*OPTIONS, *ONE_MACHINE, *options)

    def start(self, *options):
        """Start Snakemake, and go on."""
        self.snakemake_process = super().start(*OPTIONS, *ONE_MACHINE, *options)
        return self.snakemake_process

    def close(self):
        """End Snakemake and all jobs; nothing of them is left."""
        if self.snakemake_process is not None:
            self.snakemake_process.kill()
            self.snakemake_process.wait()
        command("scancel", "--user=root")
        self.assert_nothing_runs()

    def windows(self):
        """The completed windows of each record file, in the order in which they were taken."""
        found = {}
        for path in sorted((self.folder / "results" / NAME / "measure").glob("*/*.jsonl*")):
            name = f"{path.parent.name}/{path.name.removesuffix('.part')}"
            # While it is not collected, a finished file has two names.
            found[name] = [
                (record["cohort"], record["n"], record["window"], record["attempt"])
                for record in read_part(path)
                if record["kind"] == "window"
            ]
        return found

    def count(self):
        return sum(map(len, self.windows().values()))

    def wait_for_windows(self, count):
        """Wait until so many windows are on the disk; return them all."""
        wait_until(lambda: self.count() >= count, f"{count} windows", PATIENCE_S)
        return self.windows()

    def running(self):
        """The study's running job."""
        return wait_until(
            lambda: next((job for job in self.jobs() if job["JobState"] == "RUNNING"), None),
            "a running job",
        )

    def jobs(self):
        """The jobs of this study, in the order in which they were submitted."""
        return [job for job in self.slurm.jobs() if job.get("WorkDir") == str(self.folder)]

    def wait_until_it_ran_again(self, job, windows):
        """Wait until a job that was queued again has kept its old windows, and return all."""
        wait_until(lambda: self._started_again(job), f"another start of {job['JobId']}", PATIENCE_S)
        now = self.wait_for_windows(sum(map(len, windows.values())) + 1)
        assert_kept(windows, now)
        return now

    def _started_again(self, job):
        """Whether a job has been queued again and runs; SLURM would let it wait for two minutes."""
        now = self.slurm.job(job["JobId"])
        if now["Reason"] == "BeginTime":
            command("scontrol", "update", f"JobId={job['JobId']}", "StartTime=now")
        return int(now["Restarts"]) > int(job["Restarts"]) and now["JobState"] == "RUNNING"

    def fail(self, node):
        """Let a node fail: what runs there, and what it has in memory, is gone at once."""
        self.slurm.fail_node(node)
        for folder in self.temporary.glob(f"{private.PREFIX}*"):
            private.remove(folder)

    def assert_nothing_runs(self):
        """No process of this study is left on any node, and none of its private folders."""
        wait_until(lambda: processes(self.temporary) == [], "the end of all processes", 30)
        left = [path.name for path in self.temporary.glob(f"{private.PREFIX}*")]
        assert left == []


def assert_kept(before, after):
    """Every window that there was is there still, at its place, and none is there twice."""
    for name, windows in before.items():
        assert after[name][: len(windows)] == windows, name
    for name, windows in after.items():
        assert len(set(windows)) == len(windows), name
