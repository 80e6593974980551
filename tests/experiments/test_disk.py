"""What one process reads from the disk is measured, or says why not."""

from scaling_study.experiments import microbenchmarks


def test_the_rate_is_measured_and_no_file_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(microbenchmarks, "FILE_BYTES", 1 << 22)
    assert microbenchmarks.measure_disk(tmp_path).per_s > 0
    monkeypatch.setattr(microbenchmarks.os, "fsync", lambda _: (tmp_path / "missing").read_bytes())
    assert microbenchmarks.measure_disk(tmp_path).note.startswith("[Errno 2]")
    assert list(tmp_path.iterdir()) == []
