"""Processes that train one model together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes.axis import COUNT, Axis

if TYPE_CHECKING:
    from scaling_study.common.axis_values import Axes

NONE = "none"


def asked(axes: Axes) -> int | None:
    """Return how many ranks a member of a launch has; None if it is a plain process."""
    value = axes.get("ranks", NONE)
    return value if isinstance(value, int) else None


def processes(axes: Axes) -> int:
    """Return how many processes train in a member of a launch."""
    return asked(axes) or 1


def refuse(axes: Axes) -> None:
    """Refuse launchers that start one process for each member."""
    if asked(axes) is not None and axes["launcher"] != "exec":
        raise UnavailableError(
            f"ranks {axes['ranks']} and launcher {axes['launcher']} exclude each other: it starts"
            " one process for each member",
            "combine ranks with launcher exec",
        )


def observe() -> int | str:
    """Return the world size of the process group that the script has joined, or why it has none."""
    from torch import distributed

    if not distributed.is_available() or not distributed.is_initialized():
        return (
            "the script has joined no process group, so each rank trains alone, as it would under"
            " torchrun: torch.distributed.init_process_group('gloo') and DistributedDataParallel"
            " make them train one model"
        )
    return int(distributed.get_world_size())


AXIS: Axis[int] = Axis(
    "processes that train one model together, started as torchrun starts them",
    {NONE: "a plain process, which knows of no ranks"},
    COUNT,
    variables=(
        *("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "WORLD_SIZE"),
        *("LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        *("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID"),
        *("TORCHELASTIC_USE_AGENT_STORE", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
    ),
    refuse=refuse,
    observe=observe,
    numbers="rounding",
)
