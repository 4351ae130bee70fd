"""The process that forks one process per open slide, and what those do: open it, read it, answer.

It is a fresh interpreter, without the threads, secrets and libraries of the process that asks. `slide_process` is the
other side.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from slideseek.errors import SlideseekError, one_line
from slideseek.slides.reader import installed_readers, open_slide
from slideseek_components.pixels.pyramid import PyramidSlide, as_pyramid
from slideseek_components.readers.slide_process import COMMAND, FORK, KILL, receive, send

_PR_SET_PDEATHSIG = 1
_GRACE_SECONDS = 1.0
"""How long a process that has closed its channel may take to be gone."""


def main(control: socket.socket) -> None:
    """Fork on command, until the process that started this one is gone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # meant for that process: this one ends with it
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    installed_readers()
    Image.preinit()
    gc.freeze()
    while True:
        try:
            data, sockets, *_ = socket.recv_fds(control, COMMAND.size, 1)
        except ConnectionError:
            return  # the process that asked was killed
        if len(data) < COMMAND.size:
            return
        command, argument = COMMAND.unpack(data)
        if command != FORK:
            control.sendall(COMMAND.pack(command, _end(argument, command == KILL)))
            continue
        if argument:  # a slide has needed it: each process with another such slide would import it again
            import tifffile  # noqa: F401 - which takes longer than most slides, and few need it
        child = os.fork()
        if child == 0:
            control.close()
            with contextlib.suppress(BaseException):
                _serve(socket.socket(fileno=sockets[0]))
            os._exit(0)
        os.close(sockets[0])
        control.sendall(COMMAND.pack(command, child))


def _end(pid: int, kill: bool) -> int:
    """Wait for a process and return the signal that ended it."""
    until = time.monotonic() + _GRACE_SECONDS
    while not kill and time.monotonic() < until:
        gone, status = os.waitpid(pid, os.WNOHANG)
        if gone:
            return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return signal.SIGKILL


def _serve(control: socket.socket) -> None:
    """Answer on every channel that comes, each in its own thread, until the other side is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    served = _Served()
    while True:
        _, sockets, *_ = socket.recv_fds(control, 1, 1)
        if not sockets:
            return
        threading.Thread(target=served.answer, args=(socket.socket(fileno=sockets[0]),), daemon=True).start()


class _Served:
    """The slide of this process."""

    def __init__(self) -> None:
        self._slide: PyramidSlide | None = None

    def answer(self, channel: socket.socket) -> None:
        """Answer requests until the channel is closed."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                request = receive(channel)
                for one in _parts(request):
                    _limit_time(request["seconds"])
                    header, pixels = self._answer(one)
                    send(channel, header, pixels)

    def _answer(self, request: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        try:
            header, pixels = self._do(request)
        except SlideseekError as error:
            header, pixels = {"error": type(error).__name__, "cause": error.cause, "fix": error.fix}, None
        except MemoryError:
            header, pixels = {"error": "MemoryError"}, None
        except Exception as error:
            header, pixels = {"error": type(error).__name__, "cause": one_line(error)}, None
        if request["do"] != "open" and self._slide:
            header |= {"unreadable": self._slide.unreadable, "filled": self._slide.filled}
        return header, pixels

    def _do(self, request: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        if request["do"] == "open":
            with contextlib.suppress(ValueError, OSError):  # not every system limits it
                resource.setrlimit(resource.RLIMIT_AS, (request["memory"], request["memory"]))
            os.chdir(request["cwd"])
            self._slide = as_pyramid(open_slide(Path(request["path"]), request["id"], request["mpp"]))
            return facts(self._slide), None
        slide = self._slide
        if slide is None:
            raise ValueError("no slide is open")
        if request["do"] == "read":
            x, y = request["xy"]
            pixels = slide.read((x, y), request["size"], request["mpp"])
        elif request["do"] == "level":
            pixels = np.asarray(slide._read_level(request["level"], tuple(request["xy"]), tuple(request["size"])))
        else:
            pixels = slide.thumbnail(request["side"])
        pixels = np.ascontiguousarray(pixels)
        return {"shape": pixels.shape}, pixels


def _parts(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the requests that a request consists of: each has an answer, and a limit, of its own."""
    if request["do"] != "reads":
        yield request
        return
    for x, y, mpp in request["squares"]:
        yield {"do": "read", "xy": (x, y), "size": request["size"], "mpp": mpp}


def facts(slide: PyramidSlide) -> dict[str, Any]:
    """Return what is known of an open slide beside its pixels, as JSON."""
    of, owner = slide.resolution, slide.owner
    return {
        "levels": slide.levels,
        "resolution": [of.mpp_x, of.mpp_y, of.source, of.notes],
        "format": slide.format,
        "objective": slide.objective,
        "background": slide.background,
        "addresses": slide.addresses,
        "owner": [owner.kind, owner.use, owner.distribution] if owner else None,
        "read_by": slide.read_by,
        "nbytes": slide.facts.nbytes,
        "tifffile": "tifffile" in sys.modules,
    }


def _limit_time(seconds: float) -> None:
    """Allow so much more processor time: the process is ended by SIGXCPU when it is spent."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime + seconds) + 1, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
