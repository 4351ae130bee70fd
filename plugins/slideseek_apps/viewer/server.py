"""Start the viewer: bind to this machine only, create the token, run until stopped."""

from __future__ import annotations

import contextlib
import logging
import secrets
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from slideseek.archive.archive import Archive
from slideseek.errors import SlideseekError, UsageError
from slideseek_apps.viewer.access_control import TOKEN_PARAMETER, Guard, Proxy
from slideseek_apps.viewer.allowed_files import AllowedFiles
from slideseek_apps.viewer.api.services import Services
from slideseek_apps.viewer.app import make_app
from slideseek_apps.viewer.notebook import Notebook
from slideseek_apps.viewer.search_service import SearchService
from slideseek_apps.viewer.several_archives import SeveralArchives, names_of
from slideseek_apps.viewer.slow_clients import SlowClients
from slideseek_apps.viewer.tiles import Pictures
from slideseek_apps.viewer.uploads import MAX_UPLOAD_BYTES, Uploads
from slideseek_apps.viewer.worker_pools import WorkerPool

ADDRESS = "127.0.0.1"
NAMES = (ADDRESS, "localhost")
MAX_REQUESTS = 512
"""Limit on concurrent requests and connections. Above it the server answers 503 at once."""


@dataclass(frozen=True, slots=True)
class Running:
    """A running server. url: the address with the token, to open once.

    entrance: a page that leads there, for this user alone. Other users can read the command line of a browser, and an
    address in it would give the token away.
    """

    port: int
    token: str
    server: uvicorn.Server
    ended: threading.Event
    entrance: Path

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
def serving(
    *roots: Path,
    port: int = 0,
    token: str | None = None,
    logged: bool = True,
    proxy: Proxy | None = None,
    files: Sequence[Path] = (),
) -> Iterator[Running]:
    """Serve one or several archives from a thread while the block runs.

    port: 0 takes any free port. logged: whether searches are logged in their archive; if not, nothing is written there.
    proxy: the reverse proxy that people use, if there is one. files: folders whose slide files may be queried with.
    """
    with ExitStack() as opened:
        listening = opened.enter_context(contextlib.closing(_bind(port)))
        token = token or secrets.token_urlsafe(32)
        port = int(listening.getsockname()[1])
        served = {name: _services(opened, root, logged, files) for name, root in names_of(roots).items()}
        apps = {name: make_app(services) for name, services in served.items()}
        app = SeveralArchives(apps) if len(apps) > 1 else next(iter(apps.values()))
        guarded = Guard(app, token, port, NAMES, MAX_UPLOAD_BYTES, proxy)
        server, ended = opened.enter_context(_running(guarded, listening))
        for services in served.values():
            opened.callback(services.pictures.interrupt)  # first of all: requests end with an error, and the server too
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="slideseek-entrance-")))
        running = Running(port, token, server, ended, folder / "open.html")
        running.entrance.write_text(f'<meta http-equiv="refresh" content="0; url={running.url}">', encoding="utf-8")
        yield running


def _services(opened: ExitStack, root: Path, logged: bool, files: Sequence[Path]) -> Services:
    """Return what serves one archive, warmed up; it is closed with `opened`."""
    uploads = opened.enter_context(tempfile.TemporaryDirectory(prefix="slideseek-uploads-"))
    archive = Archive(root)
    searching = SearchService(archive, archive.registry(), secrets.token_hex(4), logged, AllowedFiles(files))
    services = Services(
        searching=searching,
        pictures=Pictures(searching.archive),
        uploads=Uploads(Path(uploads)),
        notebook=Notebook(archive.root, logged),
        pixels=WorkerPool("pixels", workers=8, waiting=256, share=3),
        quick=WorkerPool("quick", workers=2, waiting=128),
        slow=WorkerPool("slow", workers=1, waiting=16),
    )
    opened.callback(services.close)
    searching.warm()
    services.slow.begin(searching.prepare)
    return services


@contextmanager
def _running(app: Guard, listening: socket.socket) -> Iterator[tuple[uvicorn.Server, threading.Event]]:
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,  # addresses reveal what people looked at
        lifespan="off",
        http=SlowClients().protocol(),
        backlog=128,  # asyncio accepts so many at once, before it closes any
        limit_concurrency=MAX_REQUESTS,
        timeout_graceful_shutdown=2,
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
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # requests that it gives up are no news now
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
