"""A made-up study of several machines, analysed and compared."""

import rendering
import synthetic
from scaling_study.analysis import compare
from scaling_study.config.config import NodeKind
from scaling_study.records.analysis import Compared
from scaling_study.records.codec import read_file, write_file


def launches(speed):
    """A default and a better launch, and the repeat of that one."""
    default, better = (synthetic.hard_saturation(speed * n, speed * 4 * n) for n in (10, 50))
    return (
        synthetic.Launch(role="default", law=default),
        synthetic.Launch({"intra_op": 1}, "baseline", better),
        synthetic.Launch({"intra_op": 1}, "repeat", better),
    )


def measure(folder, name, speed, *hosts):
    """Measure a machine of a study; hosts are its nodes, each of a hash of its own."""
    options = {"study": "several", "ns": (1, 2, 4), "launches": launches(speed)}
    machines = [synthetic.machine(name=host) for host in hosts]
    own = folder / "machines" / name
    rendering.make_study(own, machines=machines, **options)
    return read_file(own / "plan.json", object)


def compared(folder, plan, **kinds):
    """Compare a study's machines, given with what the config says of each."""
    write_file(folder / "plan.json", plan)
    kinds = {name: NodeKind(**kind) for name, kind in kinds.items()}
    found = {
        name: compare.read_results(folder / "machines" / name, synthetic.typed(plan))
        for name in kinds
    }
    path = folder / "analysis/machines.json"
    write_file(path, compare.compare(found, kinds))
    return read_file(path, Compared)


def render(folder):
    """Render a study that has been compared; return its report."""
    return rendering.render(folder, compared=folder / "analysis/machines.json")
