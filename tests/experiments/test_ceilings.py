"""What the machine could give: each rate is measured, or says why not."""

import builtins

from scaling_study.experiments import ceilings


def test_every_rate_is_measured_and_no_file_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(ceilings, "TIME_S", 0.05)
    monkeypatch.setattr(ceilings, "FILE_BYTES", 1 << 22)
    found = {one.name: one for one in ceilings.measure(tmp_path)}
    assert set(found) == {"page_cache", "disk_in_order", "disk_at_random", "loopback", "jpeg"}
    assert all(one.per_s > 0 for one in found.values())
    assert found["page_cache"].per_s > found["disk_at_random"].per_s
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_measured_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(ceilings, "TIME_S", 0.01)
    monkeypatch.setattr(ceilings, "FILE_BYTES", 1 << 20)
    load = builtins.__import__

    def without_pillow(name, *args, **kwargs):
        if name == "PIL":
            raise ImportError("no module named PIL")
        return load(name, *args, **kwargs)

    def no_network(*_, **__):
        raise PermissionError("no sockets here")

    monkeypatch.setattr(builtins, "__import__", without_pillow)
    monkeypatch.setattr(ceilings.socket, "create_server", no_network)
    found = {one.name: one for one in ceilings.measure(tmp_path)}
    assert (found["jpeg"].per_s, found["jpeg"].note) == (None, "no module named PIL")
    assert (found["loopback"].per_s, found["loopback"].note) == (None, "no sockets here")
    assert found["disk_in_order"].per_s > 0
