"""One SLURM for all tests of this folder, and the proof that nothing of it is left."""

from pathlib import Path

import pytest

import cluster


def names_in_etc():
    """All files below /etc, without the copies that tools of accounts leave of their old state."""
    return {str(path) for path in Path("/etc").rglob("*") if not path.name.endswith("-")}


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    before = names_in_etc()
    folder = tmp_path_factory.mktemp("slurm") / "cluster"
    try:
        with cluster.cluster(folder) as one:
            yield one
    except cluster.NoClusterError as error:
        pytest.exit(f"make slurm: {error}", returncode=1)
    assert [*cluster.daemons_of(folder), *cluster.steps(folder)] == []
    assert names_in_etc() == before
