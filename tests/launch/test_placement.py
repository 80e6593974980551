import pytest
from hypothesis import given
from hypothesis import strategies as st

import machines
from scaling_study.common.topology import Cpu, Node, Topology
from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes import axis_table, binding, placement
from scaling_study.launch.axes.axis import PlacedSlot

NPS4 = "epyc-9654-2s-nps4"


@st.composite
def restricted(draw):
    topology = machines.topology(draw(st.sampled_from(machines.NAMES)))
    return topology.restricted(draw(st.sets(st.sampled_from(topology.cpu_ids), min_size=1)))


@given(
    topology=restricted(),
    name=st.sampled_from(["compact", "cores", "spread"]),
    width=st.integers(1, 8),
    data=st.data(),
)
def test_slots_have_their_width_and_take_every_cpu_before_any_twice(topology, name, width, data):
    usable = set(topology.cpu_ids)
    sizes = [len(part.cpus) for part in topology.kinds]
    if width > max(sizes):
        with pytest.raises(UnavailableError):
            placement.slots(name, topology, 1, width)
        return
    count = data.draw(st.integers(1, 2 * len(usable) // width + 2))
    slots = placement.slots(name, topology, count, width)
    assert [slot.slot for slot in slots] == list(range(count))
    uses = dict.fromkeys(usable, 0)
    for slot in slots:
        assert list(slot.cpus) == sorted(set(slot.cpus))
        assert len(slot.cpus) == width
        assert usable.issuperset(slot.cpus)
        assert slot.oversubscribed == any(uses[cpu] for cpu in slot.cpus)
        for cpu in slot.cpus:
            uses[cpu] += 1
        if len(sizes) == 1:
            assert max(uses.values()) - min(uses.values()) <= 1
    apart = sum(size // width for size in sizes)
    assert not any(slot.oversubscribed for slot in slots[:apart])
    assert all(slot.oversubscribed for slot in slots[apart:])


@given(topology=restricted(), count=st.integers(1, 60))
def test_l3_slots_are_whole_l3s_in_turn(topology, count):
    l3s = [set(group) for part in topology.kinds for group in part.domains("l3")]
    slots = placement.slots("per_l3", topology, count, 1)
    assert [set(slot.cpus) for slot in slots] == [l3s[n % len(l3s)] for n in range(count)]
    assert [slot.oversubscribed for slot in slots] == [n >= len(l3s) for n in range(count)]


@given(topology=restricted(), name=st.sampled_from(["cores", "spread"]))
def test_no_sibling_is_used_while_a_core_is_idle(topology, name):
    cores = {cpu.cpu: cpu.core for cpu in topology.cpus}
    slots = placement.slots(name, topology, len(set(cores.values())), 1)
    assert len({cores[slot.cpus[0]] for slot in slots}) == len(slots)


@given(topology=restricted(), count=st.integers(1, 400))
def test_spread_loads_sockets_evenly_until_one_is_full(topology, count):
    socket_of = {cpu.cpu: cpu.socket for cpu in topology.cpus}
    sockets = set(socket_of.values())
    cores = [{cpu.core for cpu in topology.cpus if cpu.socket == socket} for socket in sockets]
    count = min(count, len(sockets) * min(map(len, cores)))
    used = [socket_of[slot.cpus[0]] for slot in placement.slots("spread", topology, count, 1)]
    load = [used.count(socket) for socket in sockets]
    assert max(load) - min(load) <= 1


HYBRID = st.sampled_from(["core-i7-1370p", "gb10"])


@given(
    machine=HYBRID,
    name=st.sampled_from([word for word in placement.AXIS.words if word != "none"]),
    width=st.integers(1, 6),
)
def test_no_slot_mixes_kinds_of_cores_and_fast_ones_come_first(machine, name, width):
    kind_of = {cpu.cpu: cpu.kind for cpu in machines.topology(machine).cpus}
    slots = placement.slots(name, machines.topology(machine), 20, width)
    kinds = [{kind_of[cpu] for cpu in slot.cpus} for slot in slots]
    assert all(len(kind) == 1 for kind in kinds)
    assert kinds[0] == {0}
    assert ({1} in kinds) == (name != "fast_cores")


@given(machine=HYBRID, count=st.integers(1, 24), name=st.sampled_from(["cores", "spread"]))
def test_loaders_that_have_the_rest_share_no_cpu_while_there_are_enough(machine, count, name):
    placed = loaders(machine, min(count, 10), placement=name, loader_cpus="rest")
    used = [cpu for own, others in placed for cpu in own | others]
    assert len(used) == len(set(used))


def test_fast_cores_are_a_value_for_machines_that_have_others():
    with pytest.raises(UnavailableError, match="of one kind"):
        placement.slots("fast_cores", machines.topology(NPS4), 1, 1)
    i7 = machines.topology("core-i7-1370p")
    with pytest.raises(UnavailableError, match="12 may be used and have cores of one kind"):
        placement.slots("cores", i7, 1, 13)
    assert placement.slots("fast_cores", i7, 7, 2)[6].oversubscribed


@given(topology=restricted(), name=st.sampled_from([*placement.AXIS.words.keys() - {"fast_cores"}]))
def test_the_first_slots_do_not_depend_on_how_many_there_are(topology, name):
    more = placement.slots(name, topology, 20, 1)
    assert placement.slots(name, topology, 7, 1) == more[:7]


def singles(*numbers):
    return [(number,) for number in numbers]


@pytest.mark.parametrize(
    ("name", "machine", "width", "placed"),
    [
        ("compact", NPS4, 1, singles(0, 192, 1)),
        ("compact", NPS4, 2, [(0, 192), (1, 193)]),
        # The CPU numbers of its nodes interleave.
        ("compact", "xeon-8260-8s-snc2", 1, singles(0, 1, 2, 3, 7, 8, 9, 13, 14, 15, 19, 20, 4)),
        ("cores", NPS4, 2, [(0, 1), (2, 3)]),
        ("cores", "xeon-4s-offline-cpus", 1, singles(0, 4, 1, 6, 10, 3, 7, 8, 12, 9, 11, 15)),
        # Only the CPUs of the cpuset.
        ("cores", "container-v2", 1, singles(4, 5, 6, 7, 20, 21, 22, 23, 4)),
        # Fast cores, then slower ones, then what is left of the fast ones.
        ("cores", "core-i7-1370p", 1, singles(*range(0, 12, 2), *range(12, 20), 1, 3)),
        ("compact", "core-i7-1370p", 5, [(0, 1, 2, 3, 4), (5, 6, 7, 8, 9), (12, 13, 14, 15, 16)]),
        ("fast_cores", "core-i7-1370p", 1, singles(*range(0, 12, 2), *range(1, 12, 2), 0)),
        ("spread", "gb10", 4, [(5, 6, 7, 8), (15, 16, 17, 18), (0, 1, 2, 3), (10, 11, 12, 13)]),
        ("per_l3", "gb10", 1, [(5, 6, 7, 8, 9), (15, 16, 17, 18, 19), (0, 1, 2, 3, 4)]),
        # Clusters of four cores do not matter; nodes do.
        ("spread", "kunpeng-920-2s", 2, [(0, 1), (64, 65), (32, 33), (96, 97)]),
        ("cores", "graviton3", 16, [(*range(16),), (*range(16, 32),)]),
        # A wide slot stays together.
        ("spread", NPS4, 4, [(0, 1, 2, 3), (96, 97, 98, 99), (24, 25, 26, 27)]),
        ("spread", "emulated-uneven", 2, [(0, 1), (4, 5), (2, 3), (6, 7)]),
        # No cache is known: a socket each.
        ("per_l3", "vm-no-l3", 1, [(0, 1, 2, 3), (0, 1, 2, 3)]),
    ],
)
def test_which_cpus_slots_have(name, machine, width, placed):
    slots = placement.slots(name, machines.usable(machine), len(placed), width)
    assert [slot.cpus for slot in slots] == placed


def test_lists_are_used_in_turn_whatever_the_width():
    slots = placement.slots(["0-1", "3"], machines.usable("vm-no-l3"), 3, 1)
    assert slots == (
        PlacedSlot(0, (0, 1), False),
        PlacedSlot(1, (3,), False),
        PlacedSlot(2, (0, 1), True),
    )
    overlapping = placement.slots(["0-1", "1-2"], machines.usable("vm-no-l3"), 2, 2)
    assert [slot.oversubscribed for slot in overlapping] == [False, True]


def test_a_listed_cpu_that_may_not_be_used_says_which_may():
    with pytest.raises(UnavailableError) as caught:
        placement.slots(["4", "8-9"], machines.usable("container-v2"), 1, 1)
    assert "CPU 8-9 is offline, not there, or not allowed" in caught.value.reason
    assert "within 4-7,20-23" in caught.value.remedy


# ---- CPUs of a loader's own


def loaders(machine, count, **axes):
    """The CPUs of each member, and those of them that are its loader's."""
    asked = {"intra_op": 1, "placement": "cores", **axes}
    placed = axis_table.place(asked, machines.usable(machine), count)
    return [(set(slot.cpus) - set(slot.loader_cpus), set(slot.loader_cpus)) for slot in placed]


def test_a_loader_has_cores_beside_those_that_its_member_trains_on():
    assert loaders(NPS4, 2, loader_cpus=3) == [({0}, {1, 2, 3}), ({4}, {5, 6, 7})]
    # Threads that share a core stay together.
    shared = {"intra_op": 2, "placement": "compact", "loader_cpus": 2}
    assert loaders(NPS4, 1, **shared) == [({0, 192}, {1, 193})]


@pytest.mark.parametrize("wanted", ["cores", "spread"])
@pytest.mark.parametrize("count", [2, 4, 8, 192])
def test_members_train_on_cores_of_their_own_where_loaders_have_the_rest(wanted, count):
    core_of = {cpu.cpu: cpu.core for cpu in machines.usable(NPS4).cpus}
    placed = loaders(NPS4, count, placement=wanted, loader_cpus="rest")
    assert len({core_of[cpu] for trains, _ in placed for cpu in trains}) == count
    assert {len(loads) for _, loads in placed} == {384 // count - 1}
    assert len(set().union(*(both for pair in placed for both in pair))) == 384


@pytest.mark.parametrize(
    ("axes", "count", "message"),
    [
        ({"loader_cpus": "rest"}, 384, "no CPUs for its loader beside the 1 that it trains on"),
        ({"loader_cpus": 1, "placement": ["0", "1"]}, 2, "no CPUs for its loader"),
        ({"loader_cpus": 384}, 1, "a slot of 385 CPUs does not fit"),
    ],
)
def test_no_cpus_are_left_for_loaders(axes, count, message):
    with pytest.raises(UnavailableError, match=message):
        loaders(NPS4, count, **axes)


def test_a_slot_wider_than_the_machine_says_what_fits():
    with pytest.raises(UnavailableError) as caught:
        placement.slots("cores", machines.usable("container-v1"), 1, 5)
    assert caught.value.reason == "a slot of 5 CPUs does not fit: 4 may be used (2-5)"
    assert "intra_op to at most 4" in caught.value.remedy


def test_no_cpu_at_all():
    with pytest.raises(UnavailableError, match="no CPU"):
        placement.slots("none", machines.topology("vm-no-l3").restricted([]), 1, 1)


def policy(membind, machine, cpus=None):
    return binding.memory_policy(membind, PlacedSlot(0, cpus, False), machines.usable(machine))


@pytest.mark.parametrize(
    ("membind", "machine", "bound", "policy_of_numa_maps"),
    [
        ("none", NPS4, None, "default"),
        ("local", NPS4, (23, 24, 192), "bind:0-1"),
        ("preferred", NPS4, (23, 24, 192), "prefer:0-1"),
        ("preferred", "kunpeng-920-2s", (32,), "prefer:1"),
        ("2-3,5", NPS4, None, "bind:2-3,5"),
        ("8-15", "xeon-max-9480-2s-snc4", None, "bind:8-15"),  # nodes without CPUs
        ("interleave", "emulated-uneven", None, "interleave:0,2"),
        ("interleave", "xeon-max-9480-2s-snc4", None, "interleave:0-7"),
        ("interleave", "memory-apart-from-cpus", None, "interleave:5-10"),
        # The memory of GPUs.
        ("interleave", "gh200", None, "interleave:0"),
        ("interleave", "power9-gpu-nodes", None, "interleave:0,8"),
        ("local", "xeon-r630-node0-offline", (5,), "bind:1"),
    ],
)
def test_memory_policies(membind, machine, bound, policy_of_numa_maps):
    assert policy(membind, machine, bound) == policy_of_numa_maps


@pytest.mark.parametrize(
    ("membind", "machine", "bound", "reasons", "remedy"),
    [
        ("local", "xeon-e5472-shared-cpus", (0, 1), ("several NUMA nodes list the same",),
         'membind to "0-7" or to interleave'),
        # CPUs without memory are pointed to the nearest.
        ("local", "memory-apart-from-cpus", (0,), (), 'membind to "5"'),
        # The kernel allows no node without any.
        ("local", "emulated-uneven", (3,), ("node 1 ",), 'membind to "0"'),
        ("0,8-9", NPS4, None, ("NUMA node 8, 9 is not there", "nodes with memory are 0-7"),
         '"0-7"'),
        ("local", "xeon-r630-node0-offline", (4,),
         ("CPUs is offline; nodes with memory are 1",), ""),
    ],
)  # fmt: skip
def test_a_policy_that_cannot_be_set_says_what_could(membind, machine, bound, reasons, remedy):
    with pytest.raises(UnavailableError) as caught:
        policy(membind, machine, bound)
    assert all(reason in caught.value.reason for reason in reasons), caught.value.reason
    assert remedy in caught.value.remedy


@pytest.mark.parametrize("membind", ["local", "preferred", "interleave", "0"])
def test_a_machine_that_tells_nothing_of_its_memory_has_no_policy_to_set(membind):
    topology = Topology((Cpu(0, 0, 0, 0, 0),), (Node(0, 0, {}),))
    with pytest.raises(UnavailableError, match="no NUMA node is known to have memory"):
        binding.memory_policy(membind, PlacedSlot(0, (0,), False), topology)
    assert binding.memory_policy("none", PlacedSlot(0, (0,), False), topology) == "default"
