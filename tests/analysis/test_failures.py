import synthetic
from made_records import read_lines, write_lines
from scaling_study.analysis.analyse import list_failures
from scaling_study.records.analysis import Failures, Point


def failures(folder, *launches, edit=lambda _: None, **options):
    def change(_plan):
        edit(folder / "measure" / launches[0].id)

    _, found = synthetic.collected(folder, change, launches=launches, **options)
    return list_failures("m", found.cohorts.cohorts, found.cohorts.missing)


def test_a_complete_study_lists_nothing(tmp_path):
    assert failures(tmp_path, synthetic.Launch()) == Failures(machine="m")


def test_every_ending_is_listed_with_reason_and_remedy(tmp_path):
    found = failures(
        tmp_path,
        synthetic.Launch({}, "default"),
        synthetic.Launch({"blas": "mkl"}, ending="skipped"),
        synthetic.Launch({"blas": "blis"}, ending="failed"),
        synthetic.Launch({"intra_op": 1}, ending="partial"),
        replicates=2,
    )
    assert [(each.label, each.status, each.replicate) for each in found.launches] == [
        (label, status, replicate)
        for label, status in (
            ("blas mkl", "skipped"), ("blas blis", "failed"), ("intra_op 1", "partial")
        )
        for replicate in range(2)
    ]  # fmt: skip
    assert found.launches[0].remedy == "pip install the-library"
    assert found.launches[-1].log == "Traceback …"
    assert [(each.slot, each.what) for each in found.members] == [(7, "died")] * 2
    assert [(each.label, each.n) for each in found.points] == [("intra_op 1", 8)]


def test_invalid_windows_are_counted_by_flag_and_their_points_named(tmp_path):
    launch = synthetic.Launch({"intra_op": 1}, "baseline", never_valid=(4,))
    found = failures(tmp_path, launch, ns=[1, 4], replicates=2, windows=3)
    lost = [(each.n, each.flag, each.count) for each in found.windows]
    assert lost == [(4, "foreign_cpu", 6), (4, "short_overlap", 6)]
    assert found.points == (Point(launch=launch.id, label=launch.label, n=4),)


def test_a_stopped_job_is_interrupted_unless_it_went_on(tmp_path):
    def stop(folder):
        path = folder / "0.jsonl"
        write_lines(path, read_lines(path)[:-1])

    def go_on(folder):
        path = folder / "0.jsonl"
        records = read_lines(path)
        write_lines(path, [*records[:-1], *({**record, "cohort": 1} for record in records)])

    stopped = failures(tmp_path / "stopped", synthetic.Launch(), edit=stop).launches
    assert [(each.status, each.replicate) for each in stopped] == [("interrupted", 0)]
    assert failures(tmp_path / "went_on", synthetic.Launch(), edit=go_on).launches == ()


def test_a_missing_file_is_a_failure(tmp_path):
    lose = lambda folder: (folder / "2.jsonl").unlink()  # noqa: E731
    found = failures(tmp_path, synthetic.Launch(), edit=lose)
    assert [(each.status, each.replicate) for each in found.launches] == [("missing", 2)]
