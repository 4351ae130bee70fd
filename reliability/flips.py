"""One flipped bit in an archive, with the file's size and date unchanged: is any answer different without a word?

Each trial is a copy of a toy archive in which one random bit is flipped. Its answers are compared with those of the
whole archive. Then `slideseek verify` has to find the damage and `slideseek repair` has to repair it: afterwards
everything is verified and all answers are as before.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from reliability.row import Effort, Figure, Row
from reliability.toy_archive import CONFIG_FILE, command, make, paint
from reliability.trial import Outcome, copy_tree, in_child
from slideseek.archive.schema import SEALED

Place = tuple[str, int]
"""A file below the archive's folder, and a byte in it."""

SEARCHES: tuple[tuple[object, ...], ...] = (
    ("s0", "--engine", "bars"),
    ("s5", "--engine", "fitted"),
    ("s1", "--engine", "bars", "--vertical"),
    ("s2", "--engine", "fitted", "--where", "age>=52"),
)
NEW_FILE: tuple[object, ...] = ("new.png", "--engine", "fitted", "--mpp", "1", "--patient", "p99")
"""A file is encoded by the model."""

EVIDENCE: tuple[object, ...] = ("s0", "--engine", "bars", "--evidence")
"""Which patches matched is told from features."""

TRIALS, SHORT = 1000, 8
REPAIRED = 4
"""Every so many trials, the damage is also repaired."""


def _anywhere(pattern: str) -> Callable[[Path, random.Random], Place]:
    """Choose a byte of the files that match a pattern, each byte being equally likely."""

    def choose(root: Path, rng: random.Random) -> Place:
        files = sorted(file for file in root.glob(pattern) if file.is_file())
        file = rng.choices(files, [each.stat().st_size for each in files])[0]
        return str(file.relative_to(root)), rng.randrange(file.stat().st_size)

    return choose


def _of_rows(root: Path, rng: random.Random) -> Place:
    """Choose a byte of a text in a row of the catalogue."""
    data = (root / "catalog.sqlite").read_bytes()
    with closing(sqlite3.connect(root / "catalog.sqlite")) as db:
        while True:
            table = rng.choice(sorted(SEALED))
            column = rng.choice(SEALED[table])
            found = db.execute(f"SELECT {column} FROM {table} ORDER BY random() LIMIT 1").fetchone()
            text = found[0].encode() if found and isinstance(found[0], str) else b""
            at = [match.start() for match in re.finditer(re.escape(text), data)] if len(text) > 1 else []
            if at:
                return "catalog.sqlite", rng.choice(at) + rng.randrange(len(text))


def _of_payloads(root: Path, rng: random.Random) -> Place:
    """Choose a byte of stored patches or of a code."""
    data = (root / "catalog.sqlite").read_bytes()
    with closing(sqlite3.connect(root / "catalog.sqlite")) as db:
        blobs = [row[0] for row in db.execute("SELECT data FROM payloads WHERE data IS NOT NULL ORDER BY key")]
    while True:
        blob = rng.choice(blobs)
        start = rng.randrange(max(1, len(blob) - 16))
        if (at := data.find(blob[start : start + 16])) >= 0:
            return "catalog.sqlite", at + rng.randrange(min(16, len(blob) - start))


CLASSES: dict[str, Callable[[Path, random.Random], Place]] = {
    "catalogue pages": _anywhere("catalog.sqlite"),
    "catalogue rows": _of_rows,
    "payloads": _of_payloads,
    "features": _anywhere("features/*/*.h5"),
    "models": _anywhere("models/*/*"),
    "index rows": _anywhere("index/*/*/*-0.npy"),
    "index tables": _anywhere("index/*/*/[his]*"),
    "configuration": _anywhere(CONFIG_FILE),
}


def run(effort: Effort) -> Iterator[Figure]:
    """Flip bits in every class of artefacts."""
    whole = effort.work / "whole"
    make(whole)
    paint(effort.work / "new.png", 99)
    for done in (command("backup", effort.work / "backup", "-a", whole), command("verify", whole)):
        if done.code:
            raise RuntimeError(done.out + done.err)
    known = answers(whole, every=True)
    content = contents(whole)
    for name, choose in CLASSES.items():
        if not effort.wants(name):
            continue
        seen: Counter[str] = Counter()
        examples: list[str] = []
        trials = effort.trials(TRIALS, SHORT)
        rng = random.Random(f"{effort.seed} {name}")
        for number in range(trials):
            target = effort.work / "trial"
            shutil.rmtree(target, ignore_errors=True)
            copy_tree(whole, target)
            file, byte = choose(target, rng)
            bit = rng.randrange(8)
            flip(target / file, byte, bit)
            every = name in ("models", "features", "payloads") or number % REPAIRED == 0
            repaired = number % REPAIRED == 0
            outcome = in_child(lambda: trial(target, known, content, every, repaired), 120)  # noqa: B023
            for what in judged(outcome):
                seen[what] += 1
                if what in BAD and len(examples) < 8:
                    examples.append(
                        f"{what}: bit {bit} of byte {byte} of {file}: {outcome.value or outcome.text[-600:]}"
                    )
        yield Figure(
            name,
            trials,
            {what: seen[what] for what in (*GOOD, *BAD) if seen[what] or what in BAD},
            not any(seen[what] for what in BAD),
            examples=tuple(examples),
        )


GOOD = (
    "same answers",
    "said so",
    "refused",
    "no content changed",
    "only in a counter or the list of past builds",
    "found by verify",
    "repaired",
)
BAD = ("silently different", "crashed", "traceback", "hung", "not named", "not found by verify", "not repaired")


def judged(outcome: Outcome) -> list[str]:
    """Return what is to be counted of a trial."""
    if outcome.end != "answered":
        return ["traceback" if outcome.end == "refused" else outcome.end]
    return [str(one) for one in outcome.value["counts"]]


def flip(file: Path, byte: int, bit: int) -> None:
    """Flip one bit of a file; its size and its dates stay."""
    stat, data = file.stat(), bytearray(file.read_bytes())
    data[byte] ^= 1 << bit
    file.write_bytes(data)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def answers(root: Path, every: bool) -> list[Any]:
    """Return what searches answer: their hits, or the exit code and the message, and whether there was a traceback."""
    found: list[Any] = []
    for query, *options in (*SEARCHES, NEW_FILE, EVIDENCE) if every else SEARCHES:
        text = root.parent / str(query) if "." in str(query) else query
        done = command("search", text, *options, "--json", "-a", root)
        said = done.err
        if done.code == 0:
            answer = done.json
            said += "\n".join(answer.pop("notes"))
            for changing in ("milliseconds", "query"):
                answer.pop(changing, None)
            for hit in answer["hits"]:
                hit["slide"].pop("path", None)
            found.append({"code": 0, "answer": answer, "said": said, "bug": done.traceback})
        else:
            found.append({"code": done.code, "answer": None, "said": said, "bug": done.traceback})
    return found


def contents(root: Path) -> dict[str, Any]:
    """Return all rows of the catalogue by table, whatever page they are on: to know whether a flipped bit matters."""
    from slideseek.archive.catalog import with_seals

    with closing(sqlite3.connect(root / "catalog.sqlite")) as db:
        with_seals(db)
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        rows = {name: sorted(map(repr, db.execute(f"SELECT * FROM {name}"))) for name in tables}
        schema = sorted(map(repr, db.execute("SELECT type, name, sql FROM sqlite_master")))
        sound = [str(row[0]) for row in db.execute("PRAGMA integrity_check")]
    return {**rows, "": schema, "integrity": sound}


def trial(root: Path, known: list[Any], content: dict[str, Any], every: bool, repaired: bool) -> dict[str, Any]:
    """Search, verify and repair a damaged archive; return what happened, in the words of the table."""
    counts, notes = list[str](), list[str]()
    ends = []
    for now, before in zip(answers(root, every), known):
        notes.append(now["said"][-300:])
        if now["bug"]:
            ends.append("traceback")
        elif now["code"]:
            ends.append("refused" if re.search(NAMED, now["said"]) else "not named")
        elif now["answer"] == before["answer"]:
            ends.append("same answers" if not now["said"] else "said so")
        else:
            ends.append("said so" if re.search(NAMED, now["said"]) else "silently different")
    counts.append(max(ends, key=SEVERITY.index))
    verified = command("verify", root, "--json")
    if verified.traceback:
        counts.append("traceback")
    found = verified.code != 0
    try:
        now_there = contents(root)
        changed = [name for name in content if now_there.get(name) != content[name]]
    except (sqlite3.Error, UnicodeDecodeError):
        changed = ["unreadable"]
    elsewhere = any(files_differ(root))
    if found:
        counts.append("found by verify")
    elif changed and set(changed) <= {"runs", "generations"}:
        counts.append("only in a counter or the list of past builds")
    elif changed or elsewhere:
        counts.append("not found by verify")
        notes.append(f"changed: {changed}")
    else:
        counts.append("no content changed")
    if repaired and found:
        done = command("repair", root, "--backup", root.parent / "backup")
        again = answers(root, every)
        well = [now["answer"] for now in again] == [before["answer"] for before in known[: len(again)]]
        clean = command("verify", root, "--json").code == 0
        counts.append("repaired" if well and clean and not done.traceback else "not repaired")
        if counts[-1] == "not repaired":
            notes.append(f"repair: {done.code} {done.out[-300:]} {done.err[-600:]} same: {well} clean: {clean}")
    return {"counts": counts, "notes": notes}


NAMED = r"catalog|slideseek\.toml|index|\.h5|model|slide '|record|features|engine"
"""What an error or a note has to name: a file, a row, or the engine whose results are concerned."""

SEVERITY = ("same answers", "said so", "refused", "not named", "traceback", "silently different")


def files_differ(root: Path) -> Iterator[bool]:
    """Yield whether files beside the catalogue differ from those of the whole archive."""
    whole = root.parent / "whole"
    for file in sorted(whole.rglob("*")):
        if file.is_file() and not file.name.startswith("catalog.sqlite"):
            now = root / file.relative_to(whole)
            yield not now.is_file() or now.read_bytes() != file.read_bytes()


ROW = Row(
    "flips",
    "One flipped bit, size and date unchanged",
    "no answer silently different, no crash, no traceback; the file or row is named; `slideseek verify` finds every "
    "change of content, `slideseek repair` repairs it",
    run,
)
