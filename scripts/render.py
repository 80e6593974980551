"""Render a study: figures/*.svg, launch/recommended.sh and the report."""

import argparse
import sys
from pathlib import Path

from scaling_study.common import file_errors
from scaling_study.rendering.render import render_study


def main() -> None:
    """Parse the arguments, render."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study-folder", type=Path, required=True, help="results/<study>")
    parser.add_argument("--report", type=Path, required=True, help="the HTML file to write")
    parser.add_argument("--plan", type=Path, help="default: plan.json in the study's folder")
    parser.add_argument(
        "--builds",
        type=Path,
        help="folder of built environments; default: .builds beside the study",
    )
    parser.add_argument("--compared", type=Path, help="machines.json of a study that names some")
    arguments = parser.parse_args()
    folder = arguments.study_folder
    written = render_study(
        folder,
        arguments.report,
        plan=arguments.plan or folder / "plan.json",
        builds=arguments.builds or folder.parent / ".builds",
        compared=arguments.compared,
    )
    print(f"wrote {len(written)} files: {arguments.report} and what it is made of", file=sys.stderr)


if __name__ == "__main__":
    with file_errors.told(
        "render", reads="analysis, tables, profile, fingerprint.json and plan.json"
    ):
        main()
