"""The commands that change an archive, each with an archive before it, and what it must have become in the end."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from reliability.toy_archive import Done, command, make, paint_slides
from reliability.trial import copy_tree, in_child

FEW = 4
"""Slides of an archive that is changed."""


@dataclass(frozen=True)
class Step:
    """A command. arguments: given the archive. start: makes the archive before it. kept: ids that must not be lost."""

    name: str
    arguments: Callable[[Path], tuple[object, ...]]
    start: Callable[[Path], None]
    kept: tuple[str, ...]

    def run(self, root: Path) -> Done:
        """Run the command."""
        return command(*self.arguments(root))

    def prepare(self, work: Path) -> tuple[Path, Any]:
        """Return the archive before the command, and what an undisturbed run makes of it."""
        before, after = work / f"{self.name}-before", work / f"{self.name}-after"
        if not before.exists():
            in_child_or_raise(lambda: self.start(before))
        shutil.rmtree(after, ignore_errors=True)
        copy_tree(before, after)
        state = in_child_or_raise(lambda: finished(self, after))
        return before, state["result"]


def in_child_or_raise(work: Callable[[], Any]) -> Any:
    """Run something that must work in a child; return what it returns."""
    outcome = in_child(work, 300)
    if outcome.end != "answered":
        raise RuntimeError(f"{outcome.end}: {outcome.text}")
    return outcome.value


def _added(root: Path) -> None:
    make(root, FEW, built=False)


def _built(root: Path) -> None:
    make(root, FEW)


def _more(root: Path) -> None:
    make(root, FEW)
    paint_slides(root / "slides", range(FEW + 2))


def _to_import(root: Path) -> None:
    make(root, FEW)
    (root / "given").mkdir()
    for n in range(2):
        features = np.random.default_rng(n).normal(size=(5, 12)).astype(np.float32)
        with h5py.File(root / "given" / f"s{n}.h5", "w") as file:
            file["features"], file["coords"] = features, np.arange(10).reshape(5, 2) * 64


def _removed(root: Path) -> None:
    make(root, FEW)
    if (done := command("remove", "s1", "-a", root)).code:
        raise RuntimeError(done.err)


IDS = tuple(f"s{n}" for n in range(FEW))

STEPS = (
    Step(
        "add",
        lambda root: ("add", root / "slides", "--manifest", root / "slides" / "manifest.csv", "-a", root),
        _more,
        IDS,
    ),
    Step("build", lambda root: ("build", "-a", root), _added, IDS),
    Step(
        "import",
        lambda root: ("import", root / "given", "--set", "given", "--patch-size", "64", "-a", root),
        _to_import,
        IDS,
    ),
    Step("remove", lambda root: ("remove", "s1", "-a", root), _built, ("s0", "s2", "s3")),
    Step("compact", lambda root: ("compact", root), _removed, ("s0", "s2", "s3")),
)


def finished(step: Step, root: Path) -> dict[str, Any]:
    """Open an archive after a fault, run the command again, build, and return its state.

    lost: acknowledged slides that are not there before the command is run again. left: temporary files in the end.
    """
    status = command("status", "-a", root, "--json")
    if status.code:
        return {"lost": [status.err[-300:]], "left": [], "result": None, "said": "status"}
    there = {one["id"] for one in status.json["slides"]}
    lost = sorted(set(step.kept) - there)
    again = step.run(root)
    if step.name == "remove" and "no slide" in again.err:  # it had been removed
        again = Done(0, "", "")
    built = command("build", "-a", root)
    result = digest_of(root) if not again.code and not built.code else None
    left = [str(file.relative_to(root)) for file in root.rglob("*") if ".tmp-" in file.name]
    return {"lost": lost, "left": left, "result": result, "said": f"{again.err[-300:]} {built.err[-300:]}"}


TABLES = {
    "slides": "SELECT id, fingerprint, patient, site, label, center, fields FROM slides ORDER BY id",
    "results": "SELECT s.slide_id, s.stage, s.status, p.key, p.sha256 FROM stages s LEFT JOIN payloads p"
    " ON p.key = s.key ORDER BY 1, 2, s.settings",
    "orphans": "SELECT count(*) FROM payloads WHERE key NOT IN (SELECT key FROM stages)",
    "models": "SELECT settings, key, files FROM models ORDER BY 1",
}


def digest_of(root: Path) -> dict[str, Any]:
    """Return what an archive holds, apart from times: rows, results, models, and what searches find."""
    with closing(sqlite3.connect(root / "catalog.sqlite")) as db:
        found: dict[str, Any] = {
            name: hashlib.sha256(repr(db.execute(query).fetchall()).encode()).hexdigest()[:16]
            for name, query in TABLES.items()
        }
        sound = db.execute("PRAGMA integrity_check").fetchone()[0]
    found["files"] = hashlib.sha256(
        b"".join(file.read_bytes() for file in sorted((root / "features").rglob("*.h5")))
    ).hexdigest()[:16]
    found["search"] = [
        [(hit["slide"]["id"], hit["distance"]) for hit in done.json["hits"]] + done.json["notes"]
        if not done.code
        else done.err
        for done in (command("search", "s0", "-a", root, "--engine", name, "--json") for name in ("bars", "fitted"))
    ]
    found["search"] = [[list(one) if isinstance(one, tuple) else one for one in answer] for answer in found["search"]]
    return {**found, "sound": sound}
