"""A disk that is full, fails or is read-only, at every call that changes it.

Each trial is a command on a copy of a toy archive of which one call (write, sync, rename, open for writing, ...) fails
with ENOSPC, EIO or EROFS, and all calls after it too, as on a real disk; or that call alone. Then the disk works again.
"""

from __future__ import annotations

import errno
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reliability import disk_faults
from reliability.row import Effort, Figure, Row
from reliability.steps import STEPS, Step, finished
from reliability.toy_archive import warm
from reliability.trial import copy_tree, in_child

ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "EROFS": errno.EROFS}
SHORT = 2
BAD = ("slide lost", "crashed", "traceback", "hung", "no path", "did not open", "left over", "other result")


def run(effort: Effort) -> Iterator[Figure]:
    """Let every call fail once."""
    warm(effort.work)
    for step in STEPS:
        if not effort.wants(step.name):
            continue
        before, after = step.prepare(effort.work)
        counted = in_child(lambda: _faulty(step, before, effort.work / "count", disk_faults.ALWAYS, errno.EIO, 1))  # noqa: B023
        calls = int(counted.value["calls"])
        for name, number in ERRORS.items():
            seen: Counter[str] = Counter()
            examples: list[str] = []
            chosen = range(1, calls + 1)
            if effort.short:
                chosen = range(1, calls + 1, max(1, calls // SHORT))
            for call in chosen:
                times = disk_faults.ALWAYS if call % 2 else 1
                target = effort.work / "trial"
                shutil.rmtree(target, ignore_errors=True)
                what, text = _trial(step, before, after, target, call, number, times)
                for one in what:
                    seen[one] += 1
                if set(what) & set(BAD) and len(examples) < 6:
                    examples.append(f"{what} at call {call} ({'all after' if times > 1 else 'alone'}): {text}")
            yield Figure(
                f"{step.name}, {name}",
                len(chosen),
                {"reported": seen["reported"], "not needed": seen["not needed"], **{one: seen[one] for one in BAD}},
                not any(seen[one] for one in BAD),
                examples=tuple(examples),
            )
        shutil.rmtree(effort.work / "count", ignore_errors=True)


def _faulty(step: Step, before: Path, target: Path, call: int, number: int, times: int) -> dict[str, Any]:
    """Run a command with a fault; return what it said and at which call the fault was."""
    copy_tree(before, target)
    disk_faults.arm(target, call, number, times)
    done = step.run(target)
    calls, place = disk_faults.disarm()
    return {"calls": calls, "place": place, "code": done.code, "err": done.err[-700:], "bug": done.traceback}


def _trial(
    step: Step, before: Path, after: Any, target: Path, call: int, number: int, times: int
) -> tuple[list[str], str]:
    """Return what happened in one trial, in the words of the table, and the details."""
    first = in_child(lambda: _faulty(step, before, target, call, number, times), 120)
    if first.end != "answered":
        return [first.end], first.text[-500:]
    said, found = first.value, list[str]()
    if said["bug"]:
        found.append("traceback")
    elif said["code"]:
        found.append("reported")
        if str(target) not in said["err"] and "catalog" not in said["err"]:
            found.append("no path")
    else:
        found.append("not needed")
    then = in_child(lambda: finished(step, target), 120)
    if then.end != "answered":
        return [*found, "did not open" if then.end == "refused" else then.end], f"{said} then {then.text[-500:]}"
    state = then.value
    if state["lost"]:
        found.append("slide lost")
    if state["left"]:
        found.append("left over")
    if state["result"] != after:
        found.append("other result")
    return found, f"{said} then {state['said']} {state['left']} {state['lost']}"


ROW = Row(
    "full_disk",
    "ENOSPC, EIO, EROFS at every call that changes the disk",
    "no acknowledged slide lost, one clear error with the path, the archive opens, the next run cleans up and ends in "
    "the result of a run without faults",
    run,
)
