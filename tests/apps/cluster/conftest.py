"""Two dozen slides, and the same archive of them for every way of building it."""

import contextlib
import getpass
import os
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from bench.servers import DaskCluster, tethered

CONFIG = """
[[engine]]
name       = "bars"
selector   = { use = "mosaic", size = 32, mpp = 1.0, percent = 30, clusters = 4, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "yottixel" }
index      = { use = "hamming" }

[[engine]]
name       = "words"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "bovw", words = 4 }
index      = { use = "cosine" }
"""
SLIDES = 24
VARIES = {"seconds", "updated", "added", "seal"}
"""Columns of the catalogue that say when, not what, and the checksum of all."""


def rows(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of the catalogue's tables of slides, stages and results, but for times."""
    found = {}
    with contextlib.closing(sqlite3.connect(folder / "catalog.sqlite")) as db:
        for table in ("slides", "stages", "payloads", "code_changes"):
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[1] not in VARIES]
            found[table] = db.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY 1, 2, 3").fetchall()
    return found


def left_behind(folder: Path) -> list[str]:
    """Return the names of files that wait, or of parts, after a build."""
    return [path.name for name in ("incoming", "parts") for path in (folder / name).rglob("*") if path.is_file()]


@pytest.fixture(scope="session")
def stored():
    """`stored(folder)`: the rows of the catalogue, but for times."""
    return rows


@pytest.fixture(scope="session")
def waiting():
    """`waiting(folder)`: names of the files that a build has left behind."""
    return left_behind


@pytest.fixture(scope="session")
def made(tmp_path_factory, paint_tiny):
    """Folder with 24 slides, two of the same content, and `archive`, where they are added and nothing is built."""
    from slideseek.cli import main

    base = tmp_path_factory.mktemp("two-dozen")
    (base / "slides").mkdir()
    lines = ["slide_id,filename,case_id,primary_site,diagnosis,mpp"]
    for number in range(SLIDES):
        name = f"s{number:02}"
        paint_tiny(base / "slides" / f"{name}.png", min(number, SLIDES - 2), number % 2 == 0, side=256)
        lines.append(f"{name},{name}.png,p{number},{('colon', 'lung')[number % 2]},label{number % 3},1.0")
    shutil.copyfile(base / "slides" / f"s{SLIDES - 2}.png", base / "slides" / f"s{SLIDES - 1}.png")
    (base / "manifest.csv").write_text("\n".join(lines) + "\n")
    (base / "config.toml").write_text(CONFIG)
    for arguments in (
        ("init", base / "archive", "--config", base / "config.toml"),
        ("add", base / "slides", "--manifest", base / "manifest.csv", "-a", base / "archive"),
    ):
        with pytest.raises(SystemExit) as done:
            main([str(a) for a in arguments])
        assert not done.value.code
    return base


@pytest.fixture
def archive(made, tmp_path):
    """A function that returns a fresh archive of the 24 slides, with more configuration."""

    def make(name="archive", more=""):
        folder = Path(shutil.copytree(made / "archive", tmp_path / name))
        with (folder / "slideseek.toml").open("a") as config:
            config.write(more)
        return folder

    return make


@pytest.fixture(scope="session")
def local_rows(made, tmp_path_factory):
    """What a build in one process stores."""
    from slideseek.api import open_archive

    folder = Path(shutil.copytree(made / "archive", tmp_path_factory.mktemp("local") / "archive"))
    with open_archive(folder) as opened:
        summary = opened.build()
    assert summary.counts == {"ok": SLIDES}
    return rows(folder)


@pytest.fixture(scope="session")
def dask(tmp_path_factory):
    """A Dask scheduler with two worker processes."""
    pytest.importorskip("distributed")
    folder = tmp_path_factory.mktemp("dask")
    scheduler = DaskCluster(folder, {"SLIDESEEK_TRUST": str(folder.parent)})
    try:
        scheduler.wait()
        yield scheduler
    finally:
        scheduler.close()


SLURM = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ReturnToService=2
MpiDefault=none
MailProg=/bin/true
SchedulerParameters=sched_interval=1,batch_sched_delay=1,sched_min_interval=0
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=2000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    """A Slurm of one node: the environment in which its commands find it."""
    missing = [name for name in ("munged", "slurmctld", "slurmd", "sbatch") if not shutil.which(name)]
    if missing:
        pytest.skip(f"Slurm is not installed (no {', '.join(missing)}): apt-get install slurm-wlm munge")
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # a short path: that of a socket has at most 107 characters
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o600)
    host = socket.gethostname().partition(".")[0]
    config = SLURM.format(host=host, folder=folder, user=getpass.getuser(), ports=free_ports(2))
    (folder / "slurm.conf").write_text(config)
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    files = [f"--{kind}-file={folder}/munge.{kind}" for kind in ("key", "pid", "log", "seed")]
    commands = [
        ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *files],
        ["slurmctld", "-D"],
        ["slurmd", "-D"],
    ]
    started = []
    try:
        for command in commands:
            with (folder / f"{command[0]}.out").open("w") as log:
                started.append(subprocess.Popen(tethered(command), env=environment, stdout=log, stderr=log))
            until = time.monotonic() + 30
            while command[0] == "munged" and not (folder / "munge.socket").exists() and time.monotonic() < until:
                time.sleep(0.05)
        until = time.monotonic() + 60
        while "idle" not in subprocess.run(["sinfo", "-h"], env=environment, capture_output=True, text=True).stdout:
            logs = "".join(path.read_text()[-2000:] for path in sorted(folder.glob("*.out")))
            assert time.monotonic() < until, logs
            time.sleep(0.2)
        yield environment
    finally:
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:  # it waits for its jobs, which the test is done with
                process.kill()
                process.wait()
        shutil.rmtree(folder, ignore_errors=True)
