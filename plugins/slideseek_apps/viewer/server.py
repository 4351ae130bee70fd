"""Start the viewer: bind to this machine only, create the token, run until stopped."""

from __future__ import annotations

import contextlib
import secrets
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from slideseek.archive.archive import Archive
from slideseek.errors import SlideseekError, UsageError
from slideseek_apps.viewer.access_control import TOKEN_PARAMETER, Guard
from slideseek_apps.viewer.api.services import Services
from slideseek_apps.viewer.app import make_app
from slideseek_apps.viewer.search_service import SearchService
from slideseek_apps.viewer.tiles import Pictures
from slideseek_apps.viewer.uploads import MAX_UPLOAD_BYTES, Uploads
from slideseek_apps.viewer.worker_pools import WorkerPool

ADDRESS = "127.0.0.1"
NAMES = (ADDRESS, "localhost")
MAX_REQUESTS = 512
"""Limit on concurrent requests and connections. Above it the server answers 503 at once."""


@dataclass(frozen=True, slots=True)
class Running:
    """A running server. url: the address with the token, to open once."""

    port: int
    token: str
    server: uvicorn.Server
    ended: threading.Event

    @property
    def origin(self) -> str:
        """The address without the token."""
        return f"http://{ADDRESS}:{self.port}"

    @property
    def url(self) -> str:
        """The address to open."""
        return f"{self.origin}/?{TOKEN_PARAMETER}={self.token}"

    def wait(self) -> None:
        """Wait until the server ends. An interrupt is raised."""
        # Not by joining the thread: in Python 3.11 a join that a signal interrupts treats the thread as finished.
        while not self.ended.wait(timeout=0.5):
            pass


@contextmanager
def serving(root: Path, port: int = 0, token: str | None = None) -> Iterator[Running]:
    """Serve an archive from a thread while the block runs. port: 0 takes any free port."""
    with (
        tempfile.TemporaryDirectory(prefix="slideseek-uploads-") as uploads,
        contextlib.closing(_bind(port)) as listening,
    ):
        token = token or secrets.token_urlsafe(32)
        port = int(listening.getsockname()[1])
        archive = Archive(root)
        searching = SearchService(archive, archive.registry(), session=secrets.token_hex(4))
        services = Services(
            searching=searching,
            pictures=Pictures(searching.archive),
            uploads=Uploads(Path(uploads)),
            pixels=WorkerPool("pixels", workers=4, waiting=256),
            quick=WorkerPool("quick", workers=2, waiting=128),
            slow=WorkerPool("slow", workers=1, waiting=16),
        )
        try:
            searching.warm()
            services.slow.begin(searching.prepare)
            guarded = Guard(make_app(services), token, port, NAMES, MAX_UPLOAD_BYTES)
            with _running(guarded, listening) as (server, ended):
                yield Running(port, token, server, ended)
        finally:
            services.close()


@contextmanager
def _running(app: Guard, listening: socket.socket) -> Iterator[tuple[uvicorn.Server, threading.Event]]:
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,  # addresses reveal what people looked at
        lifespan="off",
        limit_concurrency=MAX_REQUESTS,
        timeout_keep_alive=30,
        server_header=False,
        ws="none",
        h11_max_incomplete_event_size=32 * 1024,
    )
    server = uvicorn.Server(config)
    ended = threading.Event()

    def run() -> None:
        try:
            server.run(sockets=[listening])
        finally:
            ended.set()

    thread = threading.Thread(target=run, name="slideseek-serve", daemon=True)
    thread.start()
    try:
        while not server.started:
            if ended.is_set():
                raise SlideseekError("the server could not start", "run it again; choose another --port if it persists")
            time.sleep(0.01)
        yield server, ended
    finally:
        server.should_exit = True
        ended.wait(timeout=10)


def _bind(port: int) -> socket.socket:
    # The protocol must be explicit: asyncio sets TCP_NODELAY only on sockets that state it, and a tile then takes 3 ms
    # instead of 45.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((ADDRESS, port))
    except OSError as error:
        listening.close()
        cause = f"port {port} of {ADDRESS} cannot be used ({error.strerror})"
        raise UsageError(cause, "stop what uses it, or pass another --port; 0 takes any free port") from error
    return listening
