"""What one process reads from the disk is measured, or says why not."""

from scaling_study.experiments import disk


def test_the_rate_is_measured_and_no_file_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "FILE_BYTES", 1 << 22)
    assert disk.measure(tmp_path).per_s > 0
    monkeypatch.setattr(disk.os, "fsync", lambda _: (tmp_path / "missing").read_bytes())
    assert disk.measure(tmp_path).note.startswith("[Errno 2]")
    assert list(tmp_path.iterdir()) == []
