"""Render a study of saved tables: its figures and its report."""

import argparse
import sys
from pathlib import Path

from scaling_study.common import file_errors
from scaling_study.rendering.report_imported import render_imported


def main() -> None:
    """Parse the arguments, render."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study-folder", type=Path, required=True, help="results/<study>")
    parser.add_argument("--decide", type=Path, required=True, help="config of the experiments")
    parser.add_argument("--report", type=Path, required=True, help="the HTML file to write")
    arguments = parser.parse_args()
    decide = arguments.decide.read_text(encoding="utf-8")
    written = render_imported(arguments.study_folder, arguments.report, decide)
    print(f"wrote {len(written)} files: {arguments.report} and its figures", file=sys.stderr)


if __name__ == "__main__":
    with file_errors.told("render", reads="analysis and tables"):
        main()
