"""One SLURM for all tests of this folder, and the proof that none of its processes is left."""

import pytest

import cluster


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slurm") / "cluster"
    try:
        with cluster.cluster(folder) as one:
            yield one
    except cluster.NoClusterError as error:
        pytest.exit(f"make slurm: {error}", returncode=1)
    assert [*cluster.daemons_of(folder), *cluster.steps(folder)] == []
