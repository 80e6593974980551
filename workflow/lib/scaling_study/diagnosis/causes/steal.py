"""CPU time taken by the hypervisor."""

from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.measures import Account

STOLEN = Account(("stolen_s_per_step",), "time that the hypervisor took")

CAUSE = Cause(
    "CPU time taken by the hypervisor",
    "the computer is a virtual one, and its host gives the processors to others meanwhile",
    "Steal time grows; nothing inside the machine accounts for it.",
    "steal in /proc/stat, proc(5); Documentation/virt/kvm/x86/msr.rst",
    Remedy("Move to a host that is not overcommitted, or to dedicated CPUs."),
    growth=(Route(STOLEN),),
    level=(Route(STOLEN),),
    order=50,
)
