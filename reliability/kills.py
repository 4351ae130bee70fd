"""`kill -9` at every call that changes the disk, and at random instants.

Each trial is a command on a copy of a toy archive. The archive must open as it is; slides that the command had reported
must be there; and running the command again must end in what an undisturbed run ends in.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from reliability import disk_faults
from reliability.row import Effort, Figure, Row
from reliability.steps import STEPS, Step, finished
from reliability.toy_archive import warm
from reliability.trial import copy_tree, in_child
from slideseek.cli import main

RANDOM, SHORT = 200, 5
BAD = ("did not open", "reported slide lost", "other result", "left over", "traceback", "hung", "crashed")


def run(effort: Effort) -> Iterator[Figure]:
    """Kill at every step of every command, then builds at random instants."""
    warm(effort.work)
    for step in STEPS:
        if not effort.wants(step.name):
            continue
        before, after = step.prepare(effort.work)
        calls = _calls(step, before, effort.work / "count")
        chosen = range(1, calls + 1, max(1, calls // SHORT) if effort.short else 1)
        yield _figure(
            f"{step.name}, at every call", [_killed(step, before, after, effort.work, call) for call in chosen]
        )
    if effort.wants("random instants"):
        step = STEPS[1]
        before, after = step.prepare(effort.work)
        started = time.monotonic()
        in_child(lambda: step.run(_copied(before, effort.work / "count")).code, 300)
        seconds, rng = time.monotonic() - started, random.Random(effort.seed)
        trials = effort.trials(RANDOM, SHORT)
        results: list[tuple[list[str], str]] = []
        while sum("killed" in found for found, _ in results) < trials:  # some are done before
            results.append(_killed(step, before, after, effort.work, 0, rng.random() * seconds))
        yield _figure("build, at random instants", results)


def _figure(name: str, results: list[tuple[list[str], str]]) -> Figure:
    seen = Counter(what for found, _ in results for what in found)
    examples = [f"{found}: {text}" for found, text in results if set(found) & set(BAD)][:6]
    counted = {what: seen[what] for what in ("killed", "done before", *BAD)}
    met = not any(seen[what] for what in BAD)
    return Figure(name, len(results), counted, met, examples=tuple(examples))


def _copied(before: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    copy_tree(before, target)
    return target


def _calls(step: Step, before: Path, target: Path) -> int:
    """Return how many calls of a command change the disk."""

    def count() -> int:
        disk_faults.arm(_copied(before, target), disk_faults.ALWAYS, disk_faults.KILL)
        step.run(target)
        return disk_faults.disarm()[0]

    return int(in_child(count, 300).value)


def _killed(step: Step, before: Path, after: Any, work: Path, call: int, delay: float = 0.0) -> tuple[list[str], str]:
    """Kill a command at a call, or after a delay; return what was found then."""
    target, said = _copied(before, work / "trial"), work / "said.txt"
    said.write_text("")  # a child may be killed before it opens it
    child = os.fork()
    if child == 0:
        output = os.open(said, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if call:
            disk_faults.arm(target, call, disk_faults.KILL)
        try:
            main([str(one) for one in step.arguments(target)])
        except SystemExit as ended:
            os._exit(int(ended.code or 0))
        finally:
            os._exit(99)
    if delay:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    found = ["killed" if killed else "done before"]
    if not killed and os.waitstatus_to_exitcode(status):
        found.append("traceback")
    reported = re.findall(r"^ok\s+features \S+\s+(\S+)", said.read_text(errors="replace"), re.MULTILINE)
    state = in_child(lambda: _after(step, target, reported), 120)
    if state.end != "answered":
        return [*found, state.end if state.end != "refused" else "did not open"], state.text[-500:]
    value = state.value
    if value["lost"]:
        found.append("did not open" if value["said"] == "status" else "reported slide lost")
    if value["left"]:
        found.append("left over")
    if value["result"] != after:
        found.append("other result")
    return found, f"call {call}, delay {delay:.3f}: {value}"


def _after(step: Step, root: Path, reported: list[str]) -> dict[str, Any]:
    """Look at an archive after a kill, without repairing anything, then finish the command."""
    query = "SELECT slide_id FROM stages JOIN payloads USING (key) WHERE stage = 'featurize' AND status = 'done'"
    with closing(sqlite3.connect(root / "catalog.sqlite")) as db:
        there = {row[0] for row in db.execute(query)}
    state = finished(step, root)
    state["lost"] += sorted(set(reported) - there)
    return state


ROW = Row(
    "kills",
    "`kill -9` at every call that changes the disk, and at random instants",
    "every archive opens without repair, every reported slide is there, no temporary file stays, the final state "
    "equals that of an undisturbed run byte for byte",
    run,
)
