"""The error that makes a study skip a launch."""


class UnavailableError(Exception):
    """This machine cannot do what a launch asks for, so the launch is skipped.

    Attributes:
        reason: what is missing.
        remedy: the command or setting that would make it possible.
    """

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy
