"""Which flamegraphs a report has."""

import json

import pytest

import browser
import rendering
import synthetic
import synthetic_profiles
from scaling_study.profiling.profiles import profile_folders, read_manifests
from scaling_study.report.flames import PointError, view_flames, view_points

DEFAULT, BEST = synthetic.LAUNCHES[0], synthetic.LAUNCHES[4]


def manifests(folder):
    return read_manifests(profile_folders(folder))


@pytest.fixture
def folder(tmp_path):
    machine = synthetic.machine()
    synthetic_profiles.add_stacks(synthetic_profiles.write_target(tmp_path, DEFAULT, machine))
    place = synthetic_profiles.write_target(tmp_path, BEST, machine, target="recommended")
    synthetic_profiles.add_stacks(place)
    return tmp_path


def test_comparisons_are_shown_and_every_point_is_a_file(folder):
    flames = view_flames(manifests(folder))
    assert [flame.title for flame in flames.shown] == [
        "default: 1 against 8 processes",
        f"{BEST.label}: 1 against 8 processes",
        f"default against {BEST.label}, with 8 processes",
    ]
    assert len({flame.name for flame in flames.shown}) == 3
    assert len(flames.files) == 2 * 4
    for name, text in flames.files.items():
        if name.endswith(".folded"):
            stacks = dict(line.rsplit(" ", 1) for line in text.splitlines())
            scope = json.loads(flames.files[name.replace(".folded", ".speedscope.json")])
            (profile,) = scope["profiles"]
            names = [frame["name"] for frame in scope["shared"]["frames"]]
            for sample, seconds in zip(profile["samples"], profile["weights"], strict=True):
                path = ";".join(names[at].replace(";", ":") for at in sample)
                assert float(stacks[path]) == pytest.approx(1e6 * seconds, abs=1e-3)
    assert flames.notes == []


def test_the_kernel_of_every_profile_is_named(folder):
    kernels = view_flames(manifests(folder)).kernels
    assert [title for title, _ in kernels] == [
        "default, 1 process", "default, 8 processes",
        f"{BEST.label}, 1 process", f"{BEST.label}, 8 processes",
    ]  # fmt: skip
    assert all("sgemm_kernel" in kernel for _, kernel in kernels)


def test_a_point_that_cannot_be_compared_is_shown_itself(tmp_path):
    place = synthetic_profiles.write_target(tmp_path, DEFAULT, synthetic.machine(), counts=(8,))
    synthetic_profiles.add_stacks(place)
    (flame,) = view_flames(manifests(tmp_path), suffix="-x").shown
    assert flame.title == "default, 8 processes"
    assert flame.name.endswith("-8-x")


@pytest.mark.parametrize("lines", [[], ["no stack"]])
def test_stacks_that_cannot_be_read_are_a_note(tmp_path, lines):
    place = synthetic_profiles.write_target(tmp_path, DEFAULT, synthetic.machine())
    synthetic_profiles.add_stacks(place, lines=lines)
    flames = view_flames(manifests(tmp_path))
    assert flames.shown == []
    assert len(flames.notes) == 2
    assert "No flamegraph of default, n = 1" in flames.notes[0]


def test_without_stacks_there_is_nothing(tmp_path):
    synthetic_profiles.write_target(tmp_path, DEFAULT, synthetic.machine())
    flames = view_flames(manifests(tmp_path))
    assert (flames.shown, flames.files, flames.kernels, flames.notes) == ([], {}, [], [])


@pytest.mark.skipif(browser.executable() is None, reason="Chromium is not installed")
def test_the_page_has_them_with_the_kernels_beside_the_readback(folder):
    study = rendering.make_study(folder, ns=(1, 8), replicates=1, windows=1, steps=3)
    report = rendering.render(study)
    names = {path.name for path in (study / "figures").glob("stacks-*")}
    assert names == set(view_flames(manifests(folder)).files)
    with browser.browse() as page:
        page.open(report)
        page.run("document.querySelectorAll('details').forEach(e => e.open = true)")
        assert page.problems == []
        assert page.run("document.querySelectorAll('[data-flame] canvas').length") == 3
        widths = "[...document.querySelectorAll('[data-flame] canvas')].map(e => e.clientWidth)"
        page.run("new Promise(done => setTimeout(done, 200))")
        assert min(page.run(widths)) > 300  # they are drawn when the section is unfolded
        effective = "document.getElementById('m1-time').parentNode.innerText"
        assert "mkl_blas_avx512_sgemm_kernel_0" in page.run(effective)


def test_any_two_points_can_be_compared(folder):
    found = manifests(folder)
    one = view_points(found, f"{DEFAULT.id}/8")
    both = view_points(found, f"{DEFAULT.id}/1", "recommended/8")
    assert one.title == "default, 8 processes"
    assert both.title == f"default, 1 process against {BEST.label}, 8 processes"


def test_a_point_that_was_not_profiled_is_an_error_that_names_those_that_were(folder):
    with pytest.raises(PointError, match=f"no stacks of default/8; .*{DEFAULT.id}/8"):
        view_points(manifests(folder), "default/8")
