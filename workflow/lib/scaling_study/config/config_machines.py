"""The `machines` section of a config: kinds of node that a study measures and compares."""

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import (
    AfterValidator,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    ValidationInfo,
)

from scaling_study.common.problems import (
    ConfigError,
    Problem,
    found,
    nearest_word,
    read_each,
    shorten,
    wrong,
)
from scaling_study.config.config_schema import Allowed, Section, Unit, problems_of

# A machine's name is a folder, a part of file names and of links in the report. It begins with a
# letter, since Snakemake reads `--config machine=64` as a number.
MACHINE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
MACHINE_ALLOWED = "1 to 32 letters (a-z, A-Z), digits, _ and -, a letter first"
MACHINES = "a section with a name for each kind of node, and a section of the keys below for each"
CURRENCY = "1 to 16 characters, such as EUR"
LONGEST_CURRENCY = 16

# As sbatch(1) reads them: partitions may be several, a constraint has operators and counts.
NAME = "letters, digits and . _ + @ -"
PARTITION = f"names, separated by commas: {NAME}"
CONSTRAINT = "names of features, with the operators of sbatch's --constraint, without spaces"

# The section's key on the command line: which of its machines a run measures.
CHOICE = "machine"


def _written_as(pattern: str, allowed: str) -> AfterValidator:
    def read(value: str) -> str:
        # A dash at the beginning would be another option of sbatch's.
        if value.startswith("-") or not re.fullmatch(pattern, value, re.ASCII):
            raise wrong(value, "is not allowed", allowed)
        return value

    return AfterValidator(read)


class NodeKind(Section):
    """One kind of node: how SLURM is asked for it, how large it is, and what it costs."""

    partition: Annotated[
        StrictStr, _written_as(r"[\w.+@-]+(,[\w.+@-]+)*", PARTITION), Allowed(PARTITION)
    ] = ""
    """SLURM's partition; without it, the profile's or the site's default."""

    account: Annotated[StrictStr, _written_as(r"[\w.+@-]+", NAME), Allowed(NAME)] = ""
    """SLURM's account that is charged; without it, the profile's or the user's default."""

    qos: Annotated[StrictStr, _written_as(r"[\w.+@-]+", NAME), Allowed(NAME)] = ""
    """SLURM's quality of service; without it, the profile's or the user's default."""

    constraint: Annotated[
        StrictStr, _written_as(r"[\w.+@&|!*,()\[\]-]+", CONSTRAINT), Allowed(CONSTRAINT)
    ] = ""
    """Features that the site has given to nodes of this kind, and to no others."""

    cores: Annotated[
        Annotated[StrictInt, Field(ge=1, le=10_000)] | None,
        Allowed("a whole number from 1 to 10000, or null"),
        Unit("CPUs"),
    ] = None
    """CPUs of a node, as SLURM counts them: a node with another number is refused."""

    price: Annotated[
        Annotated[StrictFloat, Field(gt=0, le=1e9)] | None,
        Allowed("a number, above 0, at most 1000000000, or null"),
        Unit("currency/h"),
    ] = None
    """What a node costs per hour: the report then compares models per unit of `currency`."""

    watts: Annotated[
        Annotated[StrictFloat, Field(gt=0, le=1e9)] | None,
        Allowed("a number, above 0, at most 1000000000, or null"),
        Unit("W"),
    ] = None
    """What a node draws under load: the report then compares models per kWh."""


def read_currency(value: str) -> str:
    """Read the currency of prices."""
    if not value.isprintable() or value != value.strip() or len(value) > LONGEST_CURRENCY:
        raise wrong(value, "is not allowed", CURRENCY)
    return value


def read_machines(value: object, info: ValidationInfo) -> dict[str, NodeKind]:
    """Read the section, with the problems of all machines; a price needs a currency."""
    currency = info.data.get("currency")  # None where it has a mistake itself

    def read(name: object, section: object) -> tuple[str, NodeKind]:
        if not isinstance(name, str) or not MACHINE_NAME.fullmatch(name):
            plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name if isinstance(name, str) else "")
            meant = plain[:32].strip("-")
            raise wrong(
                name,
                "is not a machine's name",
                MACHINE_ALLOWED,
                meant if MACHINE_NAME.fullmatch(meant) else None,
            )
        if not isinstance(section, Mapping | NodeKind):
            keys = ", ".join(NodeKind.model_fields)
            raise wrong(section, found(section), f"a section with the keys {keys}; {{}} for none")
        try:
            kind = NodeKind.model_validate(section)
        except ValidationError as error:
            raise ConfigError(problems_of(error, NodeKind)) from None
        if kind.price is not None and currency == "":
            what = "has no currency"
            raise ConfigError(
                [Problem(("price",), shorten(kind.price), what, "currency: EUR beside machines")]
            )
        return name, kind

    if not isinstance(value, Mapping):
        raise wrong(value, found(value), MACHINES)
    return dict(read_each(value.items(), read))


def choose_machines(machines: Mapping[str, NodeKind], choice: object) -> tuple[str, ...]:
    """Say which machines a run measures: one that is named, or all of them.

    Args:
        machines: the config's.
        choice: value of `--config machine=…`; None without it.

    Raises:
        ConfigError: there is no machine of this name.
    """
    if choice is None:
        return tuple(machines)
    if not machines:
        problem = "chooses one of machines, and the config names none"
        raise ConfigError([Problem((CHOICE,), shorten(choice), problem, "a section machines")])
    if not isinstance(choice, str) or choice not in machines:
        raise ConfigError(
            [
                Problem(
                    (CHOICE,),
                    shorten(choice),
                    "is no machine of the config",
                    ", ".join(machines),
                    nearest_word(choice, machines),
                )
            ]
        )
    return (choice,)
