"""Check that the floor of the coverage has not been lowered: `python tools/coverage_floor.py COMMIT`.

Compares `fail_under` in pyproject.toml with that of an earlier commit. A commit from before there was a floor passes.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def floor_of(text: str) -> float:
    """Return the floor, per cent of the lines, that the text of a pyproject.toml states; 0 if it states none."""
    report = tomllib.loads(text).get("tool", {}).get("coverage", {}).get("report", {})
    return float(report.get("fail_under", 0))


def lowered(root: Path, commit: str) -> str:
    """Return what is wrong with the floor of a checkout compared with an earlier commit, "" if nothing is."""
    command = ["git", "-C", str(root), "show", f"{commit}:pyproject.toml"]
    before = floor_of(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    now = floor_of((root / "pyproject.toml").read_text(encoding="utf-8"))
    if now >= before:
        return ""
    return f"fail_under in pyproject.toml is {now:g}, and was {before:g} in {commit}: add tests instead"


def main() -> None:
    """Compare with the commit given on the command line."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python tools/coverage_floor.py COMMIT")
    if cause := lowered(ROOT, sys.argv[1]):
        raise SystemExit(cause)


if __name__ == "__main__":
    main()
