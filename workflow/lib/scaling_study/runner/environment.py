"""The whole environment of a member: an allow-list of what is inherited, and what is set.

Snakemake exports thread counts to every job, and shells export more. Each of these variables would
change the measurement without appearing in the plan. So a member inherits only those named here.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

# The user, the places of programs, libraries, certificates, caches and data, and the locale.
# Nothing that sets threads, allocators, preloads, BLAS or placement.
INHERITED = (
    "CONDA_PREFIX", "CURL_CA_BUNDLE", "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE",
    "LD_LIBRARY_PATH", "LOGNAME", "PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH",
    "REQUESTS_CA_BUNDLE", "SHELL", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR",
    "TORCHINDUCTOR_CACHE_DIR", "TZ", "USER", "VIRTUAL_ENV", "XDG_CACHE_HOME", "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
)  # fmt: skip

LIBRARY_FOLDER = Path(__file__).parents[2]


def activated(python: str, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that activating an interpreter's environment sets.

    Args:
        python: the interpreter; nothing is set for the one that runs this process.
        inherited: the environment before activation.
    """
    if python == sys.executable:
        return {}
    folder = Path(python).parent
    kinds = {"VIRTUAL_ENV": "pyvenv.cfg", "CONDA_PREFIX": "conda-meta"}
    variables = {
        name: str(folder.parent) for name, mark in kinds.items() if (folder.parent / mark).exists()
    }
    paths = [str(folder), *filter(None, [inherited.get("PATH")])]
    return {**variables, "PATH": os.pathsep.join(paths)}


def member_environment(
    inherited: Mapping[str, str],
    launch: Mapping[str, str],
    workload: Mapping[str, str],
    passed: Iterable[str] = (),
) -> dict[str, str]:
    """Return a member's environment.

    Args:
        inherited: the environment of the coordinator.
        launch: variables that the launch's axes set.
        workload: variables of the config's ``workload.env``, which override all others.
        passed: names of further variables that are inherited.
    """
    kept = {name: inherited[name] for name in (*INHERITED, *passed) if name in inherited}
    merged = {**kept, **launch, **workload}
    # Any build's interpreter imports the harness from this folder. The user's entries become
    # absolute, because a member's working directory may differ from this process's.
    paths = [
        os.path.abspath(path)  # noqa: PTH100
        for path in merged.get("PYTHONPATH", "").split(os.pathsep)
        if path
    ]
    return {**merged, "PYTHONPATH": os.pathsep.join([str(LIBRARY_FOLDER), *paths])}
