"""SIGINT, SIGTERM and SIGHUP at random points of a build, a training, a server and a session."""

from __future__ import annotations

import atexit
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from reliability.kills import _copied
from reliability.row import Effort, Figure, Row
from reliability.steps import STEPS, finished
from reliability.toy_archive import CONFIG, command, warm
from reliability.trial import in_child
from slideseek.cli import main

SECONDS, TRIALS, SHORT = 5.0, 100, 3
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TRAINED = CONFIG.replace('encoder = { use = "gmm-fv", components = 2 }', 'encoder = { use = "deep-fv", epochs = 6 }')
BAD = ("late", "wrong exit", "stale lock", "left over", "other result")


def run(effort: Effort) -> Iterator[Figure]:
    """Signal processes that build, train, serve and hold a session."""
    warm(effort.work)
    step = STEPS[1]
    before, after = step.prepare(effort.work)
    trained = _copied(before, effort.work / "trained-before")
    (trained / "slideseek.toml").write_text(TRAINED, encoding="utf-8")
    known = in_child(lambda: finished(step, _copied(trained, effort.work / "trained-after")), 300)
    if known.end != "answered":
        raise RuntimeError(known.text)
    built = _copied(before, effort.work / "served")
    in_child(lambda: command("build", "-a", built).code, 300)
    rows: tuple[tuple[str, Path, list[str], object, Callable[[], None] | None, tuple[signal.Signals, ...]], ...] = (
        ("build", before, ["build", "--workers", "1"], after, None, SIGNALS),
        ("build, a thread in a slow read", before, ["build", "--workers", "1"], after, _slow_reads, SIGNALS),
        ("training", trained, ["build"], known.value["result"], None, SIGNALS),
        ("serve", built, ["serve", "--port", "0"], None, None, SIGNALS),
        ("session", built, ["session"], None, None, (signal.SIGTERM, signal.SIGHUP)),
    )
    for name, source, arguments, result, patch, signals in rows:
        if not effort.wants(name):
            continue
        rng, seen, examples = random.Random(f"{effort.seed} {name}"), Counter[str](), list[str]()
        trials = effort.trials(TRIALS, SHORT)
        longest = _duration(source, effort.work / "trial", arguments) if result else 3.0
        for number in range(trials):
            root = _copied(source, effort.work / "trial")
            sent = signals[number % len(signals)]
            found, text = _signalled(root, arguments, sent, rng.random() * longest, patch)
            if result is not None:
                then = in_child(lambda: finished(step, root), 120)  # noqa: B023
                if then.end != "answered" or then.value["result"] != result:
                    found.append("other result")
                    text += f" then {then.end} {then.text[-300:]} {then.value and then.value['said']}"
                elif then.value["left"]:
                    found.append("left over")
            seen.update(found)
            if set(found) & set(BAD) and len(examples) < 6:
                examples.append(f"{sent.name} {found}: {text[-900:]}")
        counted = {what: seen[what] for what in ("ended", "done before", *BAD)}
        yield Figure(name, trials, counted, not any(seen[what] for what in BAD), examples=tuple(examples))


def _slow_reads() -> None:
    """Make a thread that reads a slide hang for a minute, in this process."""
    from slideseek.building import slide_work

    def hang(*given: object, **more: object) -> None:
        time.sleep(60)

    vars(slide_work)["open_slide"] = hang


def _start(root: Path, arguments: list[str], patch: Callable[[], None] | None, said: Path) -> int:
    """Fork a process that runs the command line as it is run from a shell; return its id."""
    child = os.fork()
    if child:
        return child
    os.setsid()
    atexit._clear()  # what the parent removes in the end is not this process's
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]
    silent, _speak = os.pipe()  # standard input stays open and says nothing
    os.dup2(silent, 0)
    output = os.open(said, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    sys.argv = ["slideseek", *arguments, "-a", str(root)]
    tempfile.tempdir = str(root.parent / "temporary")
    code = 99
    try:
        if patch:
            patch()
        main()
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        sys.stderr.flush()
        os._exit(code)


def _duration(source: Path, target: Path, arguments: list[str]) -> float:
    started = time.monotonic()
    os.waitpid(_start(_copied(source, target), arguments, None, target.parent / "said.txt"), 0)
    return time.monotonic() - started


def _signalled(
    root: Path, arguments: list[str], sent: signal.Signals, delay: float, patch: Callable[[], None] | None
) -> tuple[list[str], str]:
    """Send a signal after a delay; return what happened, and what the process printed."""
    temporary, said = root.parent / "temporary", root.parent / "said.txt"
    temporary.mkdir(exist_ok=True)
    child = _start(root, arguments, patch, said)
    time.sleep(delay)
    over = os.waitpid(child, os.WNOHANG)
    found = []
    if over[0]:
        found.append("done before")
        status = over[1]
    else:
        os.kill(child, sent)
        status, end = 0, time.monotonic() + SECONDS
        while time.monotonic() < end and not (over := os.waitpid(child, os.WNOHANG))[0]:
            time.sleep(0.01)
        if over[0]:
            status = over[1]
            found.append("ended")
        else:
            found.append("late")
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    # Before the command line has begun, a signal ends a process by itself; a server may end well.
    allowed = {
        128 + sent,
        -sent,
        130 if sent == signal.SIGINT else 128 + sent,
        *([0, 130] if "serve" in arguments else [0]),
    }
    if "late" not in found and code not in allowed:
        found.append("wrong exit")
    try:
        FileLock(root / ".lock").acquire(timeout=0).lock.release()
    except Timeout:
        found.append("stale lock")
    if left := [file.name for file in temporary.iterdir()]:
        found.append("left over")
        for name in left:
            shutil.rmtree(temporary / name, ignore_errors=True)
    text = said.read_text(errors="replace")
    if "Traceback" in text and "wrong exit" not in found:
        found.append("wrong exit")
    return found, f"after {delay:.2f} s, exit {code}, {left}: {text[-700:]}"


ROW = Row(
    "signals",
    "SIGINT, SIGTERM, SIGHUP at random points",
    "ends within 5 s with exit code 130, 143 or 129, no stale lock, no left-over temporary folder, resumed to the same "
    "bytes",
    run,
)
