"""Draw the flamegraph of a profiled point, or the difference between any two, as one SVG file.

A point is a target (a launch's id, or recommended) with a process count: the name of its folder in
results/<study>/profile, such as intra_op-1-d88425/2.

    python scripts/draw_flamegraph.py results/tsmixerx default-44136f/1 recommended/64 out.svg
"""

import argparse
import sys
from pathlib import Path

from scaling_study.common.storage import write_whole
from scaling_study.profiling.profiles import ProfileError, profile_folders, read_manifests
from scaling_study.rendering.report_flames import PointError, draw_points


def main() -> int:
    """Parse the command line and draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study_folder", type=Path, help="results/<study>")
    parser.add_argument("point", metavar="TARGET/N", help="a profiled point")
    parser.add_argument("other", metavar="TARGET/N", nargs="?", help="another, to compare with it")
    parser.add_argument("output", type=Path, help="the SVG file to write")
    options = parser.parse_args()
    try:
        manifests = read_manifests(profile_folders(options.study_folder))
        drawn = draw_points(manifests, options.point, options.other)
    except (ProfileError, PointError) as error:
        print(f"flamegraph: {error}", file=sys.stderr)
        return 2
    write_whole(options.output, lambda path: path.write_text(drawn, encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
