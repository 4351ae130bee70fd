"""Run rows and write the page: `python -m reliability [ROW ...] [--short] [--seed N] [--work FOLDER]`."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import reliability.environment  # noqa: F401 - first: libraries read it when they are imported
from reliability import disk_faults
from reliability.row import Effort
from reliability.rows import FAULTY, ROWS, load
from reliability.table import PAGE, keep, markdown, write_page


def main() -> int:
    """Run the rows; figures of the long form are kept and written to the page. Return 1 if a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m reliability", description="what an archive survives, with figures")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"by default all: {', '.join(ROWS)}")
    parser.add_argument("--short", action="store_true", help="as in the suite; figures are printed but not kept")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="TEXT", help="only figures with this text in their name")
    parser.add_argument("--work", type=Path, help="folder for archives; by default a temporary one")
    given = parser.parse_args()
    if wrong := set(given.rows) - set(ROWS):
        parser.error(f"no row {', '.join(sorted(wrong))}; rows are {', '.join(ROWS)}")
    if not FAULTY.isdisjoint(given.rows or ROWS):
        disk_faults.reexec()
    met = True
    for name in given.rows or ROWS:
        row = load(name)
        print(f"{row.title}\n  bar: {row.bar}", flush=True)
        start = time.monotonic()
        with tempfile.TemporaryDirectory(dir=given.work, prefix=f"{name}-", ignore_cleanup_errors=True) as work:
            figures = []
            for one in row.run(Effort(Path(work), given.short, given.seed, given.only)):
                print(markdown([one]).splitlines()[-1], flush=True)
                for example in one.examples:
                    print(f"    {example}", flush=True)
                figures.append(one)
        met = met and all(one.met for one in figures)
        if not given.short:
            keep(row, figures, time.monotonic() - start, partly=bool(given.only))
            write_page()
    if not given.short:
        print(f"written to {PAGE}")
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
