"""Read saved tables of torch's profiler into tables/operators and compare them."""

import argparse
import json
import sys
from pathlib import Path

from scaling_study.common import file_errors
from scaling_study.common.columns import OPERATORS
from scaling_study.common.problems import ConfigError
from scaling_study.common.storage import write_json, write_table
from scaling_study.importing import imported, imported_causes
from scaling_study.importing.import_config import ImportStudy


def import_study(study: ImportStudy, folder: Path) -> None:
    """Write the tables and analyses of an imported study into its folder."""
    tables = imported.read_tables(study)
    operators = imported.operator_frame(tables)
    write_table(folder / "tables", OPERATORS, operators)
    entries = [table.to_dict() for table in tables]
    found = imported_causes.findings(entries, operators)
    description = {**study.to_dict(), "tables": entries, "findings": found}
    write_json(folder / "analysis/tables.json", description)
    write_json(folder / "analysis/inflation.json", imported.compare_tables(tables, operators))


def main() -> int:
    """Parse the arguments, read, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", required=True, help="the study, as JSON in a config's form")
    parser.add_argument("--study-folder", type=Path, required=True, help="results/<study>")
    arguments = parser.parse_args()
    try:
        import_study(ImportStudy.from_dict(json.loads(arguments.study)), arguments.study_folder)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    with file_errors.told("import"):
        sys.exit(main())
