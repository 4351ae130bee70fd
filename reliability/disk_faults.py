"""Load `faults.c` into this process, and say at which call that changes a disk it is to strike."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("faults.c")
LOADED = "SLIDESEEK_FAULTS"

ALWAYS = 1 << 40
KILL = 0
"""In place of the number of an error: kill this process at the call."""


def reexec() -> None:
    """Compile the library and start this program again with it, unless that has been done."""
    if os.environ.get(LOADED):
        return
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("faults of disks need a C compiler: install gcc")
    library = Path(tempfile.mkdtemp(prefix="slideseek-faults-")) / "faults.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-w", "-o", library, SOURCE, "-ldl"], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library), LOADED: str(library)}
    os.execve(sys.executable, [sys.executable, "-m", "reliability", *sys.argv[1:]], environment)


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.fault_arm.argtypes = (ctypes.c_char_p, ctypes.c_long, ctypes.c_long, ctypes.c_int)
    library.fault_count.restype = ctypes.c_long
    library.fault_last.restype = ctypes.c_char_p
    return library


def arm(folder: Path, call: int, error: int, times: int = ALWAYS) -> None:
    """Let calls for files below a folder fail, from one on (counted from 1). error: an errno, or `KILL`."""
    _library().fault_arm(os.fsencode(folder), call, times, error)


def disarm() -> tuple[int, str]:
    """Let all calls pass from now on; return how many there were, and which was the first to fail."""
    library = _library()
    library.fault_disarm()
    return int(library.fault_count()), os.fsdecode(library.fault_last())
