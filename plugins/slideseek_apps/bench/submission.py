"""A submission: the ranked lists of engines with their cards, a results folder that 'bench leaderboard' accepts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slideseek import __version__
from slideseek.archive.files import replacing_folder
from slideseek.digests import digest, sha256_file
from slideseek.errors import SlideseekError, UsageError
from slideseek_apps.bench.encoder_cards import read_cards, write_cards
from slideseek_apps.bench.finished_cells import CELLS
from slideseek_apps.bench.ranked_lists import QueryHits, read_hits, write_hits
from slideseek_apps.bench.results import CANDIDATES, VERSION, Cell, Results


def submit_results(results: Results, engines: Sequence[str], cards: Path, output: Path) -> list[Cell]:
    """Copy the retrieval cells of engines, all by default, and add their cards. Controls stay behind."""
    there = dict.fromkeys(cell.engine for cell in results.cells if cell.kind == "retrieval" and not cell.control)
    for engine in engines:
        if engine not in there:
            raise UsageError(f"no engine {engine!r} in the results", f"they have {', '.join(there)}")
    chosen = list(engines) or list(there)
    kept = [c for c in results.cells if c.engine in chosen and c.kind == "retrieval" and not c.control]
    if not kept:
        raise SlideseekError("there is nothing to submit: no retrieval cells", "name a folder with retrieval results")
    for cell in kept:
        cell.hits()  # checked before anything is written
    read = read_cards(cards, chosen, list(dict.fromkeys(cell.dataset.name for cell in kept)))
    with replacing_folder(output) as folder:
        for cell in kept:
            place = folder / CELLS / cell.key
            place.mkdir(parents=True)
            for name in ("cell.json", "hits.csv", CANDIDATES):
                if name != CANDIDATES or (cell.folder / name).is_file():
                    shutil.copyfile(cell.folder / name, place / name)
        write_cards(folder, read)
    return kept


def submit_lists(hits: Path, like: Cell, name: str, cards: Path, output: Path) -> int:
    """Write the ranked lists of another system as a cell with the dataset and the protocol of `like`.

    The lists must answer exactly the queries of `like`, with the same labels: ranks of a leaderboard compare only then.
    Patients, sites and the numbers of relevant slides come from `like`. Returns the number of queries.
    """
    theirs = _answering(hits, read_hits(hits), like)
    read = read_cards(cards, [name], [like.dataset.name])
    key = digest(["submitted", name, like.dataset.fingerprint, like.protocol.title, sha256_file(hits)])[:24]
    record: dict[str, Any] = json.loads((like.folder / "cell.json").read_text(encoding="utf-8"))
    record = {
        "version": VERSION,
        "key": key,
        "kind": "retrieval",
        "name": name,
        "engine": name,
        "dataset": record["dataset"],
        "protocol": record["protocol"] | {"fit": "stated by the submitter"},
        "seed": 0,
        "versions": {"slideseek": __version__},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    with replacing_folder(output) as folder:
        place = folder / CELLS / key
        place.mkdir(parents=True)
        write_hits(place / "hits.csv", theirs)
        (place / "cell.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        write_cards(folder, read)
    return len(theirs)


def _answering(path: Path, found: Sequence[QueryHits], like: Cell) -> list[QueryHits]:
    """Return lists with the facts of the queries of `like`, after checking that they answer the same questions."""
    wanted = {query.query_id: query for query in like.hits()}
    given = {query.query_id: query for query in found}
    if strange := sorted(given.keys() - wanted.keys()):
        raise UsageError(f"{path}: query {strange[0]!r} is not one of the benchmark", "leave it out")
    if missing := sorted(wanted.keys() - given.keys()):
        cause = f"{path}: {len(missing)} of {len(wanted)} queries are missing, such as {missing[0]!r}"
        raise UsageError(cause, "answer every query; one without hits is one row with an empty rank")
    facts = {hit.slide_id: hit for query in wanted.values() for hit in query.hits}
    lists = []
    for name, own in wanted.items():
        query = given[name]
        if query.label != own.label:
            raise UsageError(f"{path}: query {name!r} has label {query.label!r}, not {own.label!r}", "correct it")
        for hit in query.hits:
            known = facts.get(hit.slide_id)
            if known and known.label != hit.label:
                cause = f"{path}: slide {hit.slide_id!r} has label {hit.label!r}, not {known.label!r}"
                raise UsageError(cause, "correct it")
            patient = known.patient if known else hit.patient
            if like.protocol.leave_out == "patient" and patient and patient == own.patient:
                cause = f"{path}: query {name!r} finds {hit.slide_id!r} of its own patient"
                raise UsageError(cause, "the protocol leaves the patient out")
        lists.append(replace(own, hits=query.hits))
    return lists
