"""Every row of the reliability table in its short form: all bars are met."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reliability.rows import ROWS

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_bars_are_met(name: str, tmp_path: Path):
    # In a process of its own: trials are forks, which must not inherit threads of other tests.
    command = [sys.executable, "-m", "reliability", name, "--short", "--work", str(tmp_path)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
    assert "| met |" in done.stdout and "missed" not in done.stdout
