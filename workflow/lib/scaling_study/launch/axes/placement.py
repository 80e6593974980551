"""The CPUs that a slot is bound to.

Every placement works on the CPUs that the process may use: give it a restricted topology. When the
CPUs are used up, placements start again with the first ones, and slots that share a CPU are
labelled oversubscribed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle, groupby, islice, repeat, zip_longest
from operator import attrgetter

from scaling_study.common.axis_values import Axes, Value
from scaling_study.common.problems import read_each, wrong
from scaling_study.common.topology import Cpu, Topology, format_cpu_list, parse_cpu_list
from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes import loaders, ranks
from scaling_study.launch.axes.axis import Axis, Others, PlacedSlot, Slots, read_id_list
from scaling_study.records import window
from scaling_study.records.readback import Readback

Place = tuple[int, ...] | None
"""The CPUs of a slot; None if it is not bound."""


def slots(placement: str | Sequence[str], topology: Topology, count: int, width: int) -> Slots:
    """Place the members of a cohort.

    Args:
        placement: a word of this axis, or CPU lists, one for each slot, reused in turn.
        topology: the CPUs that may be used.
        count: how many slots.
        width: CPUs of a slot; lists and ``per_l3`` have their own.

    Returns:
        Slots 0 … count - 1.

    Raises:
        UnavailableError: The machine has no such CPUs.
    """
    if not topology.cpus:
        raise UnavailableError(
            "no CPU of this machine may be used", "widen the affinity mask or the cpuset"
        )
    if placement == "fast_cores":
        placement, fast = "cores", topology.kinds[0]
        if fast == topology:
            raise UnavailableError("all cores that may be used are of one kind", "use cores")
        topology = fast
    places = _places(placement, topology, width)
    return tuple(_labelled(islice(places, count), topology, width))


def _places(placement: str | Sequence[str], topology: Topology, width: int) -> Iterator[Place]:
    """Return an endless iterator over the CPUs of slots 0, 1, 2 …; None for unbound ones."""
    if not isinstance(placement, str):
        return _listed(placement, topology)
    if placement == "none":
        return repeat(None)
    if placement == "per_l3":
        return cycle(group for part in topology.kinds for group in part.domains("l3"))
    _fits(topology, width)
    if len(topology.kinds) > 1:
        return _by_kind(placement, topology.kinds, width)
    if placement == "spread":
        return _spread(topology, width)
    if placement == "cores":  # siblings after all cores
        order = [cpu.cpu for tier in _tiers(topology) for cpu in tier]
    else:  # compact: a slot of width 2 on a machine with SMT is the two siblings of a core
        order = [cpu.cpu for cpu in topology.compact]
    ring = cycle(order)
    return (tuple(islice(ring, width)) for _ in repeat(None))


def _by_kind(placement: str, kinds: Sequence[Topology], width: int) -> Iterator[Place]:
    """Return an endless iterator over slots that have cores of one kind each, the fastest first.

    A kind has as many slots as fit on it. An operator waits for its slowest thread, so a slot with
    cores of two kinds would be as slow as one on slow cores alone.
    """
    rank_of = {
        cpu.cpu: rank
        for part in kinds
        for rank, tier in enumerate(_tiers(part))
        for cpu in tier
        if placement != "compact"  # which takes siblings before the next core
    }
    slots = [
        slot
        for part in kinds
        if width <= len(part.cpus)
        for slot in islice(_places(placement, part, width), len(part.cpus) // width)
    ]
    # A slow core to itself is faster than half of a fast one.
    return cycle(sorted(slots, key=lambda slot: max(rank_of.get(cpu, 0) for cpu in slot or ())))


def _labelled(places: Iterable[Place], topology: Topology, width: int) -> Iterator[PlacedSlot]:
    used: set[int] = set()
    for slot, cpus in enumerate(places):
        if cpus is None:
            yield PlacedSlot(slot, None, oversubscribed=(slot + 1) * width > len(topology.cpus))
        else:
            yield PlacedSlot(slot, tuple(sorted(cpus)), oversubscribed=not used.isdisjoint(cpus))
            used.update(cpus)


def _spread(topology: Topology, width: int) -> Iterator[tuple[int, ...]]:
    """Yield slots round robin over sockets, then nodes, then L3s, then cores; siblings last.

    Slots are far from each other, but the CPUs of one slot are near each other: a slot starts at
    the next free CPU of the round and takes the free CPUs closest to it, cores before siblings.
    """
    tiers = _tiers(topology)
    tier_of = {cpu.cpu: rank for rank, tier in enumerate(tiers) for cpu in tier}
    order = [cpu for tier in tiers for cpu in _round_robin(tier, ("socket", "node", "l3"))]

    def nearest(start: Cpu, free: Sequence[Cpu], count: int) -> list[Cpu]:
        def distance(cpu: Cpu) -> tuple[int, bool, bool, bool, int]:
            away = (cpu.socket != start.socket, cpu.node != start.node, cpu.l3 != start.l3)
            return (tier_of[cpu.cpu], *away, cpu.core)

        return sorted(free, key=distance)[:count]

    free = order
    while True:
        slot = nearest(free[0], free, width)
        taken = slot
        if len(slot) < width:  # the next round begins within this slot
            taken = nearest(free[0], [cpu for cpu in order if cpu not in slot], width - len(slot))
            slot, free = slot + taken, order
        free = [cpu for cpu in free if cpu not in taken] or order
        yield tuple(cpu.cpu for cpu in slot)


def _listed(lists: Sequence[str], topology: Topology) -> Iterator[tuple[int, ...]]:
    """Return an endless iterator over the config's CPU lists.

    This is no generator, so it raises at the call and not when the first slot is taken.
    """
    usable = set(topology.cpu_ids)
    entries = [parse_cpu_list(text) for text in lists]
    missing = set().union(*entries) - usable
    if missing:
        raise UnavailableError(
            f"CPU {format_cpu_list(missing)} is offline, not there, or not allowed; "
            f"usable are {format_cpu_list(usable)}",
            f"name CPUs within {format_cpu_list(usable)}, or start with these CPUs allowed "
            "(taskset, cpuset, the whole node in a batch system)",
        )
    return cycle(entries)


def _fits(topology: Topology, width: int) -> None:
    largest = max(topology.kinds, key=lambda part: len(part.cpus))
    if width > len(largest.cpus):
        of_kind = " and have cores of one kind" if len(topology.kinds) > 1 else ""
        raise UnavailableError(
            f"a slot of {width} CPUs does not fit: {len(largest.cpus)} may be used{of_kind} "
            f"({format_cpu_list(largest.cpu_ids)})",
            f"set intra_op to at most {len(largest.cpus)} (ranks multiply it, loader_cpus adds to "
            "it), or placement to none",
        )


def _tiers(topology: Topology) -> list[list[Cpu]]:
    """Return the first CPU of every core, then the second …, each tier in compact order."""
    cores = [[*cpus] for _, cpus in groupby(topology.compact, key=attrgetter("core"))]
    return [[cpu for cpu in tier if cpu is not None] for tier in zip_longest(*cores)]


def _round_robin(cpus: Sequence[Cpu], levels: Sequence[str]) -> list[Cpu]:
    """Deal CPUs out over the groups of the first level, and within each over those of the next."""
    if not levels:
        return list(cpus)
    groups: dict[int, list[Cpu]] = {}
    for cpu in cpus:
        groups.setdefault(getattr(cpu, levels[0]), []).append(cpu)
    dealt = zip_longest(*(_round_robin(group, levels[1:]) for group in groups.values()))
    return [cpu for turn in dealt for cpu in turn if cpu is not None]


def width(axes: Axes) -> int:
    """Return how many CPUs a member of a launch needs to train; its ranks share them."""
    threads = axes["intra_op"] if isinstance(axes["intra_op"], int) else 1
    return threads * ranks.processes(axes)


def threads(axes: Axes) -> int | None:
    """Return how many threads compute in a member; None if torch starts one for each core.

    By default, each of several ranks has one thread, as under torchrun.
    """
    return width(axes) if isinstance(axes["intra_op"], int) or ranks.processes(axes) > 1 else None


def _place(axes: Axes, topology: Topology, given: Slots) -> Slots:
    own, others, asked = width(axes), axes["loader_cpus"], axes["placement"]
    placement = str(asked) if isinstance(asked, int | float) else asked
    if others == loaders.REST:
        others = max(0, _widest(topology, len(given)) - own)
    extra = others if isinstance(others, int) else 0

    def cut(usable: Topology) -> Slots:
        return slots(placement, usable, len(given), own + extra)

    placed = cut(topology)
    if others != loaders.SHARED:
        placed = tuple(_divided(one, own, topology) for one in placed)
        if _train_on_siblings(placed, topology):
            placed = tuple(_divided(one, own, topology) for one in cut(_by_threads(topology)))
    return tuple(
        replace(new, cpus=new.cpus or one.cpus, policy=one.policy)
        for one, new in zip(given, placed, strict=True)
    )


def _widest(topology: Topology, count: int) -> int:
    """Return the most CPUs that each of some slots can have without sharing, of one kind each."""
    sizes = [len(part.cpus) for part in topology.kinds]
    widths = range(max(sizes, default=0), 0, -1)
    return next((width for width in widths if sum(n // width for n in sizes) >= count), 0)


def _divided(slot: PlacedSlot, own: int, topology: Topology) -> PlacedSlot:
    """Divide a slot's CPUs, core by core: the first ones train, the others are its loader's."""
    cpus = [cpu.cpu for cpu in sorted(topology.cpus, key=lambda cpu: (cpu.core, cpu.cpu))]
    others = [cpu for cpu in cpus if cpu in (slot.cpus or ())][own:]
    if not others:
        raise UnavailableError(
            f"slot {slot.slot} has no CPUs for its loader beside the {own} that it trains on "
            f"({format_cpu_list(slot.cpus or ())}; usable are {format_cpu_list(topology.cpu_ids)})",
            "start fewer processes, or set loader_cpus to shared",
        )
    return replace(slot, loader_cpus=tuple(sorted(others)))


def _train_on_siblings(placed: Sequence[PlacedSlot], topology: Topology) -> bool:
    """Return whether two members train on one core, although a loader could use a part of it."""
    core_of = {cpu.cpu: cpu.core for cpu in topology.cpus}
    cores = [
        {core_of[cpu] for cpu in set(slot.cpus or ()).difference(slot.loader_cpus or ())}
        for slot in placed
    ]
    return sum(map(len, cores)) > len(set().union(*cores))


def _by_threads(topology: Topology) -> Topology:
    """Return the topology as if each CPU were a core, so that a slot gets siblings together."""
    alone = [replace(cpu, core=rank) for rank, cpu in enumerate(topology.compact)]
    return replace(topology, cpus=tuple(sorted(alone, key=lambda cpu: cpu.cpu)))


def _read_lists(value: object, _files: bool) -> tuple[str, ...] | None:
    if not isinstance(value, list | tuple):
        return None
    if not value:
        raise wrong(value, "is empty", CPU_LISTS.allowed)
    return tuple(read_each(enumerate(value), lambda _, item: read_id_list(item, CPU_LISTS.allowed)))


CPU_LISTS = Others('a list with the CPUs of each slot, such as ["0-1", "2,3"]', _read_lists)


def _trains_on(slot: window.Slot) -> str | None:
    """Return the CPUs of a slot that are not its loader's."""
    if slot.cpus is None:
        return None
    others = parse_cpu_list(slot.loader_cpus or "")
    return format_cpu_list(set(parse_cpu_list(slot.cpus)).difference(others))


def _requested(_value: Value, slot: window.Slot) -> str:
    cpus = _trains_on(slot)
    return "not bound" if cpus is None else f"slot {slot.slot}: {cpus}"


def _holds(_value: Value, got: Readback, slot: window.Slot) -> bool:
    cpus = _trains_on(slot)
    # OpenMP may bind its threads to some of the slot's CPUs.
    within = got.thread_cpus is not None and set(got.cpus) <= set(parse_cpu_list(cpus or ""))
    return within or cpus in {None, format_cpu_list(got.cpus)}


AXIS = Axis(
    "the CPUs that a slot is bound to",
    {
        "none": "not bound",
        "compact": "CPUs next to each other",
        "cores": "one physical core after the other, SMT siblings last",
        "fast_cores": "as `cores`, on the fast cores of a machine with two kinds of cores",
        "spread": "round robin over sockets, memory nodes and L3 caches",
        "per_l3": "a whole L3 cache for each slot, in turn",
    },
    CPU_LISTS,
    place=_place,
    requested=_requested,
    effective=lambda _, got: f"slot {got.slot}: {format_cpu_list(got.cpus)}",
    holds=_holds,
)
