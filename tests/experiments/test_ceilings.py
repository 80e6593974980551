"""What the machine could give: each rate is measured, or says why not."""

from scaling_study.experiments import ceilings


def test_every_rate_is_measured_and_no_file_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(ceilings, "TIME_S", 0.05)
    monkeypatch.setattr(ceilings, "FILE_BYTES", 1 << 22)
    found = {one.name: one for one in ceilings.measure(tmp_path)}
    assert set(found) == {"page_cache", "disk_in_order", "disk_at_random", "loopback", "jpeg"}
    assert all(one.per_s > 0 for one in found.values())
    assert found["page_cache"].per_s > found["disk_at_random"].per_s
    assert list(tmp_path.iterdir()) == []
