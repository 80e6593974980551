"""The whole environment of a member: an allow-list of what is inherited, and what is set.

Snakemake exports thread counts to every job, shells export more, and each of them would change
what is measured without a word in the plan. So a member inherits only what is named here.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Who the user is, where programs, libraries, certificates, caches and data are, and how text is
# written.
# Nothing that sets threads, allocators, preloads, BLAS or placement.
INHERITED = (
    "CONDA_PREFIX", "CURL_CA_BUNDLE", "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE",
    "LD_LIBRARY_PATH", "LOGNAME", "PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH",
    "REQUESTS_CA_BUNDLE", "SHELL", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR",
    "TORCHINDUCTOR_CACHE_DIR", "TZ", "USER", "VIRTUAL_ENV", "XDG_CACHE_HOME", "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
)  # fmt: skip

LIBRARY_FOLDER = Path(__file__).parents[2]


def member_environment(
    inherited: Mapping[str, str], launch: Mapping[str, str], workload: Mapping[str, str]
) -> dict[str, str]:
    """Return a member's environment.

    Args:
        inherited: the environment of the coordinator.
        launch: what the launch's axes set.
        workload: what the config's ``workload.env`` sets; it wins.
    """
    kept = {name: inherited[name] for name in INHERITED if name in inherited}
    merged = {**kept, **launch, **workload}
    # The harness is imported from here by whichever interpreter the build has.
    paths = [str(LIBRARY_FOLDER), *filter(None, [merged.get("PYTHONPATH")])]
    return {**merged, "PYTHONPATH": os.pathsep.join(paths)}
