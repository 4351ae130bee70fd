"""Many processes at one archive: adding, reading during commits, building."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from reliability.kills import _copied
from reliability.row import Effort, Figure, Row
from reliability.steps import STEPS, finished
from reliability.toy_archive import command, make, paint_slides, warm
from reliability.trial import Outcome, in_child
from slideseek.api import open_archive
from slideseek.archive.archive import Archive

PROCESSES, ROUNDS, COMMITS = 8, 50, 500
EACH = 2
"""Slides that each process adds alone; two more are added by all."""


def run(effort: Effort) -> Iterator[Figure]:
    """Add at once, read during commits, build at once, take over the lock of a dead writer."""
    warm(effort.work)
    for name, figure in (("adding", _adding), ("reading", _reading), ("building", _building), ("lock", _dead_writer)):
        if effort.wants(name):
            yield figure(effort)


def together(works: list[Callable[[], Any]], seconds: float = 120.0) -> list[Outcome]:
    """Run works in processes at the same time."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(lambda work: in_child(work, seconds), works))


def _adding(effort: Effort) -> Figure:
    rounds, seen, examples = effort.trials(ROUNDS, 2), Counter[str](), list[str]()
    slides = effort.work / "many"
    paint_slides(slides, range(PROCESSES * EACH + 2))
    files = sorted(slides.glob("*.png"), key=lambda file: int(file.stem[1:]))
    empty = effort.work / "empty"
    make(empty, 0, built=False)
    for _ in range(rounds):
        root = _copied(empty, effort.work / "adding")

        def add(number: int, root: Path = root) -> Callable[[], Any]:
            own = files[number * EACH : (number + 1) * EACH] + files[-2:]
            return lambda: command("add", *own, "--mpp", "1", "-a", root, "--wait").code

        ends = together([add(number) for number in range(PROCESSES)])
        with Archive(root) as archive:
            ids = archive.catalog.slides.ids()
        wrong = [one for one in ends if one.end != "answered" or one.value != 0]
        seen["failed"] += len(wrong)
        seen["lost"] += len(files) - len(set(ids) & {file.stem for file in files})
        seen["duplicate"] += len(ids) - len(set(ids)) + max(0, len(ids) - len(files))
        examples += [str(one) for one in wrong[:2]]
    counted = {what: seen[what] for what in ("failed", "lost", "duplicate")}
    what = f"{PROCESSES} processes adding disjoint and overlapping slides"
    return Figure(what, rounds, counted, not any(counted.values()), examples=tuple(examples[:5]))


def _reading(effort: Effort) -> Figure:
    """Labels of all slides change together, and slide s5 comes and goes: every answer must be of one version."""
    root = effort.work / "reading"
    make(root, 6)
    commits = effort.trials(COMMITS, 30)

    def write() -> int:
        with Archive(root) as archive, archive.writing():
            catalog = archive.catalog
            rows = list(catalog.slides)
            stages = [one for one in catalog.stages("encode") if one.slide_id == "s5"]
            for version in range(1, commits + 1):
                with catalog.transaction():
                    for row in rows:
                        catalog.slides.put(replace(row, record=replace(row.record, label=f"v{version}")))
                    if version % 2:
                        catalog.forget_stages("s5", ("encode",))
                    else:
                        for one in stages:
                            catalog.put_stage(one)
                time.sleep(0.002)
        return commits

    def read() -> dict[str, Any]:
        answers, wrong, last, example = 0, 0, -1, ""
        with open_archive(root) as archive:
            while last < commits:
                result = archive.search("s0", k=6)
                labels = {one.record.label for one in result.answer.found}
                ids = {one.record.id for one in result.answer.found}
                version = int(next(iter(labels))[1:]) if next(iter(labels)).startswith("v") else 0
                gone = version % 2 == 1
                answers += 1
                expected = {"s1", "s2", "s3", "s4"} | (set() if gone else {"s5"})
                first = version == 0 and labels == {"coarse", "fine"}  # before any commit
                if ids != expected or version < last or not (first or len(labels) == 1):
                    wrong += 1
                    example = f"{sorted(labels)} {sorted(ids)} after {last}"
                last = max(last, version)
        return {"answers": answers, "wrong": wrong, "example": example}

    ends = together([write, *[read] * PROCESSES], 300)
    readers = [one.value for one in ends[1:] if one.end == "answered"]
    counted: dict[str, int | float | str] = {
        "answers": sum(one["answers"] for one in readers),
        "of no committed version": sum(one["wrong"] for one in readers),
        "processes that failed": sum(one.end != "answered" for one in ends),
    }
    met = not counted["of no committed version"] and not counted["processes that failed"]
    examples = [one.text[-400:] for one in ends if one.end != "answered"] + [
        one["example"] for one in readers if one["wrong"]
    ]
    return Figure(f"{PROCESSES} readers during {commits} commits", commits, counted, met, examples=tuple(examples[:5]))


def _building(effort: Effort) -> Figure:
    step, rounds, seen, examples = STEPS[1], effort.trials(20, 1), Counter[str](), list[str]()
    before, after = step.prepare(effort.work)
    for _ in range(rounds):
        root = _copied(before, effort.work / "building")

        def build(*options: str, root: Path = root) -> Callable[[], Any]:
            def work() -> list[Any]:
                done = command("build", "-a", root, *options)
                return [done.code, done.err]

            return work

        first, second, refused = together([build("--wait"), build("--wait"), build()])
        for one in (first, second):
            seen["failed"] += one.end != "answered" or one.value[0] != 0
        said = refused.end == "answered" and (
            refused.value[0] == 0 or "another slideseek is writing" in refused.value[1]
        )
        seen["refused without saying so"] += not said
        seen["other result"] += in_child(lambda: finished(step, root), 120).value["result"] != after  # noqa: B023
        examples += [str(one) for one in (first, second, refused) if one.end != "answered"]
    counted = {what: seen[what] for what in ("failed", "refused without saying so", "other result")}
    return Figure(
        "two builds that wait and one that does not",
        rounds,
        counted,
        not any(counted.values()),
        examples=tuple(examples[:5]),
    )


def _dead_writer(effort: Effort) -> Figure:
    root, rounds, stuck = effort.work / "warm", effort.trials(20, 2), 0
    for _ in range(rounds):
        ready, tell = os.pipe()
        child = os.fork()
        if child == 0:
            with Archive(root) as archive, archive.writing():
                os.write(tell, b"x")
                time.sleep(60)
        os.read(ready, 1)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        stuck += in_child(lambda: command("add", root / "slides", "-a", root).code, 60).value != 0
        os.close(ready)
        os.close(tell)
    return Figure("the lock of a writer that was killed", rounds, {"not recovered": stuck}, not stuck)


ROW = Row(
    "writers",
    "Many processes at one archive",
    "no lost or duplicate slide; every answer equals one committed version; the second build waits or says so; the "
    "lock of a dead writer is recovered",
    run,
)
