"""A script that dozes in each step."""

from scaling_study.diagnosis.cause import Cause
from scaling_study.diagnosis.checks import takes
from scaling_study.diagnosis.shares import Counted

CAUSE = Cause(
    "A script that dozes",
    "time.sleep in Python's documentation",
    "Let it not doze.",
    counted=Counted(("waits_s_per_step",), "dozing", missing="it was not counted"),
    requires=(takes("waits_s_per_step", "dozing"),),
    order=95,
)
