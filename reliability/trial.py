"""Run one trial in a forked child of this process, in which everything is imported already, and say how it ended."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from slideseek.errors import SlideseekError

End: TypeAlias = Literal["answered", "refused", "traceback", "crashed", "hung"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a trial ended. value: what it returned, as JSON. text: the error. signal: what ended it, 0 for none."""

    end: End
    value: Any = None
    text: str = ""
    signal: int = 0


def in_child(work: Callable[[], Any], seconds: float = 60.0, quiet: bool = True) -> Outcome:
    """Call `work` in a forked child. What it returns must be JSON; quiet: drop what it prints.

    A `SlideseekError` is a refusal; any other exception is a traceback. The child is killed after some seconds.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        _in_the_child(work, send, quiet)
    os.close(send)
    data, late = _read(receive, time.monotonic() + seconds)
    if late:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(receive)
    if late:
        return Outcome("hung", text=f"no end within {seconds:g} s")
    if os.WIFSIGNALED(status):
        return Outcome(
            "crashed", text=f"ended by {signal.Signals(os.WTERMSIG(status)).name}", signal=os.WTERMSIG(status)
        )
    if not data:
        return Outcome("traceback", text=f"exit status {os.WEXITSTATUS(status)} without an answer")
    end, value, text = json.loads(data)
    return Outcome(end, value, text)


def _in_the_child(work: Callable[[], Any], send: int, quiet: bool) -> None:
    """Do the work, report and leave without the clean-up of the parent's interpreter."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    if quiet:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
    try:
        report = ["answered", work(), ""]
    except SlideseekError as error:
        report = ["refused", None, str(error)]
    except BaseException:
        report = ["traceback", None, traceback.format_exc()]
    data = json.dumps(report).encode()
    while data:
        data = data[os.write(send, data) :]
    os._exit(0)


def _read(receive: int, until: float) -> tuple[bytes, bool]:
    """Read all that a child sends; True if it was not done in time."""
    data = b""
    while (left := until - time.monotonic()) > 0:
        if select.select([receive], [], [], left)[0]:
            more = os.read(receive, 1 << 20)
            if not more:
                return data, False
            data += more
    return data, True


def copy_tree(source: Path, target: Path) -> None:
    """Copy an archive with its time stamps, and nothing but plain files and folders."""
    target.mkdir(parents=True)
    for entry in os.scandir(source):
        if entry.is_dir(follow_symlinks=False):
            copy_tree(Path(entry.path), target / entry.name)
        elif entry.is_file(follow_symlinks=False):
            data, stat = Path(entry.path).read_bytes(), entry.stat()
            (target / entry.name).write_bytes(data)
            os.utime(target / entry.name, ns=(stat.st_atime_ns, stat.st_mtime_ns))
