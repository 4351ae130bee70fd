"""A process that reads one slide, as the process that asks for its pixels sees it.

Decoders of slides are large C libraries, and a slide may come from anywhere. So each open slide is decoded in a process
of its own, with a limit on its memory and on the time of each request: a file that crashes a decoder, fills the memory
or never ends costs this one slide. What comes back is checked like any other input: sizes as expected, JSON, raw
pixels; nothing is unpickled.

One helper process per process of slideseek (`slide_process_main`) imports the readers once and forks for every slide.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from slideseek.errors import SlideError
from slideseek.plugins import DISABLED_VARIABLE
from slideseek.types import UInt8

SWITCH = "SLIDESEEK_ISOLATION"
"""Environment variable: "off" decodes slides in the process that asks for them."""

MEMORY_VARIABLE, MEMORY = "SLIDESEEK_SLIDE_MEMORY", 4096
"""Environment variable with the address space of a process that reads a slide, and its default, in MiB."""

SECONDS_VARIABLE = "SLIDESEEK_SLIDE_SECONDS"
"""Environment variable with the most seconds of processor time for one request, where less is not asked for."""

FORK, KILL, REAP = b"f", b"k", b"r"
COMMAND = struct.Struct("!cq")
MAX_HEADER = 2**20
_LENGTH = struct.Struct("!I")
_START_SECONDS = 120.0
"""How long the helper may take to import the readers, on a machine that is busy."""

_ALLOCATOR = {"hugetlb": 1, "mmap_threshold": 2**25, "trim_threshold": 2**30, "top_pad": 2**24, "arena_max": 1}
"""How glibc allocates in a process that reads a slide. It begins without memory and soon ends, so each page that it
asks the system for costs more than decoding what fits in it: memory comes in huge pages, and is kept when it is freed.
"""


def send(channel: socket.socket, header: dict[str, Any], body: UInt8 | None = None) -> None:
    """Send a header, JSON, and the bytes that follow it."""
    data = json.dumps(header).encode()
    channel.sendall(_LENGTH.pack(len(data)) + data)
    if body is not None:
        channel.sendall(body.data.cast("B"))


def receive(channel: socket.socket, until: float | None = None) -> dict[str, Any]:
    """Receive a header. Raises `EOFError` if the other end is gone, `TimeoutError` after `until` (monotonic clock)."""
    length = np.empty(_LENGTH.size, np.uint8)
    receive_into(channel, length, until)
    (size,) = _LENGTH.unpack(length.tobytes())
    if size > MAX_HEADER:
        raise ValueError(f"a header of {size} bytes")
    data = np.empty(size, np.uint8)
    receive_into(channel, data, until)
    header = json.loads(data.tobytes())
    if not isinstance(header, dict):
        raise ValueError("a header that is not an object")
    return header


def receive_into(channel: socket.socket, array: UInt8, until: float | None = None) -> None:
    """Fill an array with what comes; errors as in `receive`."""
    left = array.data.cast("B")
    while left:
        if until is not None:
            channel.settimeout(max(0.001, until - time.monotonic()))
        got = channel.recv_into(left)
        if not got:
            raise EOFError
        left = left[got:]


class SlideProcess:
    """The process of one slide. Several threads may ask it at once: each has its own channel. name: in messages."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []
        self._ended = False
        self._control, self._helper, self._pid = _fork()

    def ask(
        self, request: dict[str, Any], seconds: float, shapes: Collection[tuple[int, ...]] = ()
    ) -> tuple[dict[str, Any], UInt8]:
        """Return the answer to a request: a header, and pixels if their shape is one of those expected.

        seconds: of processor time; it may take twice as long by the clock. Raises `SlideError` if the process ends, is
        too slow or answers what was not asked for; it is gone then.
        """
        pixels = np.empty(0, np.uint8)
        with self._asked(request, seconds) as channel:
            until = time.monotonic() + 2 * seconds
            header = receive(channel, until)
            if "shape" in header:
                pixels = np.empty(_expected(header, shapes), np.uint8)
                receive_into(channel, pixels, until)
        return header, pixels

    def ask_many(self, request: dict[str, Any], seconds: float, images: UInt8) -> list[dict[str, Any]]:
        """Fill images, uint8 (n, h, w, 3), from the n answers to one request; return their headers.

        An answer without pixels leaves its image as it is. seconds: of each answer. Errors as in `ask`.
        """
        headers = []
        with self._asked(request, seconds) as channel:
            for image in images:
                until = time.monotonic() + 2 * seconds
                headers.append(header := receive(channel, until))
                if "shape" in header:
                    _expected(header, [image.shape])
                    receive_into(channel, image, until)
        return headers

    def note_imports(self, *, tifffile: bool) -> None:
        """Have the helper import what this slide needed, before it forks for the next one."""
        self._helper.needs_tifffile |= tifffile

    @contextlib.contextmanager
    def _asked(self, request: dict[str, Any], seconds: float) -> Iterator[socket.socket]:
        """Send a request and yield the channel that its answer comes on; see `ask` for errors."""
        try:
            channel = self._channel()
            send(channel, {**request, "seconds": seconds})
            yield channel
        except TimeoutError:
            self.end()
            raise self._too_slow(seconds) from None
        except (OSError, EOFError):
            raise self._died(seconds) from None
        except (ValueError, TypeError, RecursionError) as error:
            self.end()
            raise SlideError(
                f"the process that reads {self._name} sent {error}", "do not use this file: it may be hostile"
            ) from error
        with self._lock:
            self._idle.append(channel)

    def end(self, command: bytes = KILL) -> int:
        """End the process; return the signal that ended it, 0 if it was ended before. Threads that wait for it fail."""
        with self._lock:
            if self._ended:
                return 0
            self._ended = True
            for channel in self._idle:
                channel.close()
        with contextlib.suppress(OSError):
            self._control.close()
        return self._helper.reap(command, self._pid)

    def _channel(self) -> socket.socket:
        with self._lock:
            if self._ended:
                raise EOFError
            if self._idle:
                return self._idle.pop()
            ours, theirs = socket.socketpair()
            with theirs:
                socket.send_fds(self._control, [b"c"], [theirs.fileno()])
            return ours

    def _died(self, seconds: float) -> SlideError:
        ended_by = self.end(REAP)
        if ended_by == signal.SIGXCPU:
            return self._too_slow(seconds)
        how = f" ({signal.Signals(ended_by).name})" if ended_by in set(signal.Signals) else ""
        return SlideError(
            f"{self._name} ended the process that decodes it{how}",
            "copy the file again; do not use it if this happens again, because it may be hostile",
        )

    def _too_slow(self, seconds: float) -> SlideError:
        return SlideError(f"decoding {self._name} took more than {seconds:g} s", "convert it to a pyramidal tiled TIFF")


def _expected(header: dict[str, Any], shapes: Collection[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape of the pixels that follow a header, if it is one of those expected."""
    if (shape := tuple(header["shape"])) not in shapes:
        raise ValueError(f"pixels of shape {header['shape']}")
    return shape


class _Helper:
    """The process that forks. One command at a time. found: what decides which readers it finds (`_where`)."""

    def __init__(self, found: tuple[str, str]) -> None:
        self.found = found
        self.needs_tifffile = False
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair()
        self._control.settimeout(_START_SECONDS)
        threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # it must not have threads to fork
        tunables = ":".join(f"glibc.malloc.{name}={value}" for name, value in _ALLOCATOR.items())
        known = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}  # as Dask sets it
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "slideseek_components.readers.slide_process_main", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                env={
                    "GLIBC_TUNABLES": tunables,  # ignored by another C library, and by an older one as far as unknown
                    **known,
                    **dict.fromkeys(threads, "1"),
                    SWITCH: "off",
                    "PYTHONPATH": found[0],
                },
            )

    def fork(self, theirs: socket.socket) -> int:
        """Fork a process that takes channels from a socket; return its id."""
        with self._lock:
            socket.send_fds(self._control, [COMMAND.pack(FORK, self.needs_tifffile)], [theirs.fileno()])
            return self._reply()

    def reap(self, command: bytes, pid: int) -> int:
        """Kill a process, or wait a moment for it to end by itself; return the signal that ended it."""
        with self._lock, contextlib.suppress(OSError, EOFError):
            self._control.sendall(COMMAND.pack(command, pid))
            return self._reply()
        return 0

    def close(self) -> None:
        """Let the helper end, and every process it has forked."""
        self._control.close()

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # it could not be started
            self._control.close()
            self.process.returncode = self.process.poll() or 0

    def _reply(self) -> int:
        got = np.empty(COMMAND.size, np.uint8)
        receive_into(self._control, got)
        return int(COMMAND.unpack(got.tobytes())[1])


_starting = threading.Lock()
_helper: _Helper | None = None


def _fork() -> tuple[socket.socket, _Helper, int]:
    """Return the control socket of a new process, the helper that made it, and its id."""
    global _helper
    for attempt in (1, 2):  # a helper that somebody has killed is replaced once
        ours, theirs = socket.socketpair()
        with _starting:
            if _helper is not None and _helper.found != _where():
                _helper = None  # it ends with the last slide that it has open
            _helper = helper = _helper or _Helper(_where())
        try:
            with theirs:
                return ours, helper, helper.fork(theirs)
        except (OSError, EOFError) as error:
            ours.close()
            with _starting:
                if _helper is helper:
                    helper.close()
                    _helper = None
            if attempt == 2:
                raise SlideError(
                    f"the process that reads slides cannot be started ({type(error).__name__}: {error})",
                    f"free some memory; {SWITCH}=off reads slides you trust without it",
                ) from error
    raise AssertionError("unreachable")


def _where() -> tuple[str, str]:
    """Return where the helper looks for readers, and which of them not to use."""
    return os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path), os.environ.get(DISABLED_VARIABLE, "")


def _forget() -> None:
    """In a fork of this process: the helper belongs to the parent."""
    global _helper, _starting
    _starting = threading.Lock()
    if _helper is not None:
        _helper.close()
        _helper.process.returncode = 0  # not a child of this process: never waited for
        _helper = None


@atexit.register
def _stop() -> None:
    if _helper is not None:
        _helper.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            _helper.process.wait(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
