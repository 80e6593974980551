"""Why a launch is skipped."""

from __future__ import annotations


class UnavailableError(Exception):
    """This machine cannot do what a launch asks for: a skipped launch, with a way out.

    Attributes:
        reason: what is missing.
        remedy: the command or setting that would make it possible.
    """

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy
