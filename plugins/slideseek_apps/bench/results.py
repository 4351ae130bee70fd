"""Read a folder of benchmark results: cells, each one engine variant under one protocol with one seed.

DIR/bench.toml               the configuration as run
DIR/cells/KEY/cell.json      what the cell is, and what it cost
DIR/cells/KEY/hits.csv, candidates.csv   ranked lists, and how often each slide could be found (kind `retrieval`)
DIR/cells/KEY/predictions.csv   (kind `classification`)
DIR/cells/KEY/training.csv, values.npz   (kind `training`)
DIR/cards/ENGINE.json        what a reader must know about an engine, in a submission
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from slideseek.config import parse_toml
from slideseek.errors import SlideseekError
from slideseek_apps.bench.encoder_cards import cards_of
from slideseek_apps.bench.hub_counts import Candidates, read_candidates
from slideseek_apps.bench.ranked_lists import QueryHits, read_hits, read_rows
from slideseek_apps.bench.records import EncoderCard, check_form

if TYPE_CHECKING:
    from slideseek.types import Float64

VERSION = 1
CANDIDATES = "candidates.csv"
CELL_KINDS = ("retrieval", "classification", "training")
CellKind: TypeAlias = Literal["retrieval", "classification", "training"]


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """The dataset of a cell. fingerprint: SHA-256; equal fingerprints are the same slides, features and labels."""

    name: str
    fingerprint: str = ""
    slides: int = 0
    patients: int = 0


@dataclass(frozen=True, slots=True)
class ProtocolFacts:
    """The protocol of a cell.

    target: the field that is the label of queries and hits. leave_out: what a hit may not share with the query. fit:
    how trainable engines were kept from seeing their queries. k: hits kept per query. candidates: the slides searched.
    folds: parts of the patients, each left out of one fit; 0 is one per patient, -1 not recorded.
    """

    name: str
    mode: Literal["vertical", "horizontal"] = "horizontal"
    target: str = "label"
    leave_out: str = "patient"
    fit: str = "none"
    k: int = 0
    candidates: str = "all"
    folds: int = -1

    @property
    def title(self) -> str:
        """The name and, where they are not all slides, the candidates: numbers compare only where both are equal."""
        return self.name if self.candidates == "all" else f"{self.name} among {self.candidates} slides"


@dataclass(frozen=True, slots=True)
class Prediction:
    """One classified slide."""

    query_id: str
    label: str
    patient: str
    fold: str
    predicted: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One finished cell of the grid: what it is, what it cost, and where its results are.

    name: of the variant, as shown. sweep: the options that the grid varies, with this cell's values. times: in seconds
    or milliseconds, as the suffix of the name says. control: labels were shuffled on purpose. guards_off: guards
    against leaks that were switched off. not_encoded: by slide id, why the engine could not encode it. trial: the run
    was shortened with `--quick`. command: that ran it, without folders.
    """

    folder: Path
    key: str
    kind: CellKind
    name: str
    engine: str
    dataset: DatasetFacts
    protocol: ProtocolFacts
    seed: int = 0
    control: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    sweep: Mapping[str, Any] = field(default_factory=dict)
    times: Mapping[str, float | None] = field(default_factory=dict)
    bytes_per_slide: float | None = None
    peak_memory_mb: float | None = None
    versions: Mapping[str, Any] = field(default_factory=dict)
    created: str = ""
    guards_off: tuple[str, ...] = ()
    not_encoded: Mapping[str, str] = field(default_factory=dict)
    trial: bool = False
    command: str = ""

    def hits(self) -> list[QueryHits]:
        """Read the ranked lists of a retrieval cell."""
        return read_hits(self.folder / "hits.csv")

    def candidates(self) -> Candidates | None:
        """Read how often each slide could be found; None for a cell of an earlier version, which did not count it."""
        path = self.folder / CANDIDATES
        return read_candidates(path) if path.is_file() else None

    def predictions(self) -> list[Prediction]:
        """Read the predictions of a classification cell."""
        columns = ("query_id", "query_label", "query_patient", "fold", "predicted")
        rows = read_rows(self.folder / "predictions.csv", columns)
        return [Prediction(*(row[name] for name in columns)) for _, row in rows]

    def training(self) -> dict[str, list[float]]:
        """Read the log of a training cell: by column name, one number per epoch."""
        path = self.folder / "training.csv"
        curves: dict[str, list[float]] = {}
        for line, row in read_rows(path, ("epoch",)):
            for name, text in row.items():
                try:
                    curves.setdefault(name, []).append(float(text) if text else float("nan"))
                except ValueError:
                    raise SlideseekError(f"{path}, line {line}: {name} is {text!r}, not a number") from None
        return curves

    def values(self) -> dict[str, Float64]:
        """Read the arrays of a training cell, each float64 (dimensions,)."""
        import numpy as np

        with np.load(self.folder / "values.npz", allow_pickle=False) as arrays:
            return {name: arrays[name].astype(np.float64) for name in arrays.files}


@dataclass(frozen=True, slots=True)
class Results:
    """The content of a results folder. superseded: number of cells left out for newer ones of the same name. cards: by
    engine, where it was submitted."""

    title: str
    cells: tuple[Cell, ...]
    superseded: int = 0
    cards: Mapping[str, EncoderCard] = field(default_factory=dict)


def read_cells(folder: Path) -> list[Cell]:
    """Read every finished cell of a results folder, sorted by key."""
    inside = folder / "cells"
    paths = sorted(inside.glob("[!.]*/cell.json")) if inside.is_dir() else []
    if not paths:
        cause = "has no finished cells" if inside.is_dir() else "is not a folder of benchmark results"
        raise SlideseekError(f"{folder} {cause}", "name a folder that 'slideseek bench run' wrote")
    return [read_cell(path.parent) for path in paths]


def read_results(folder: Path) -> Results:
    """Read a results folder: its title and its cells, in the order of the configuration as run.

    The order is that of protocols and engines in `bench.toml`, then of swept values, so that an interrupted and resumed
    run reads like any other; cells of engines that are not in it come last, by key. Of cells with the same name, run
    with different options, the newest counts.
    """
    found = read_cells(folder)
    cells = _newest(found)
    path = folder / "bench.toml"
    config = parse_toml(path.read_text(encoding="utf-8"), str(path)) if path.is_file() else {}
    engines, protocols = (_names(config.get(name)) for name in ("engine", "protocol"))

    def order(cell: Cell) -> tuple[int, int, list[str], list[tuple[float, str]]]:
        place = (protocols.get(cell.protocol.name, len(protocols)), engines.get(cell.engine, len(engines)))
        return (*place, list(cell.sweep), [_rank(value) for value in cell.sweep.values()])

    title = str(config.get("title") or config.get("name") or folder.resolve().name)
    return Results(title, tuple(sorted(cells, key=order)), len(found) - len(cells), cards_of(folder))


def merge_results(results: Sequence[Results]) -> Results:
    """Merge several results under the title of the first; of cells with the same name, the newest counts."""
    cells = [cell for one in results for cell in one.cells]
    kept = {id(cell) for cell in _newest(cells)}
    left = tuple(cell for cell in cells if id(cell) in kept)
    return Results(results[0].title, left, sum(one.superseded for one in results) + len(cells) - len(left))


def _newest(cells: Sequence[Cell]) -> list[Cell]:
    """Keep the newest cell of each name, protocol, seed and dataset: options may have changed between runs."""
    kept: dict[object, Cell] = {}
    for cell in sorted(cells, key=lambda cell: cell.created):
        kept[cell.kind, cell.name, cell.seed, cell.control, cell.protocol.title, cell.dataset] = cell
    return sorted(kept.values(), key=lambda cell: cell.key)


def _rank(value: Any) -> tuple[float, str]:
    """Return a sort key: numbers by size, anything else as text."""
    return (float(value), "") if isinstance(value, (int, float)) else (0.0, str(value))


def _names(tables: Any) -> dict[str, int]:
    """Return the positions of named tables in a configuration."""
    listed = tables if isinstance(tables, list) else []
    return {str(table["name"]): i for i, table in enumerate(listed) if isinstance(table, dict) and "name" in table}


def read_cell(folder: Path) -> Cell:
    """Read one cell's record and check it."""
    path = folder / "cell.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["version"] != VERSION:
            raise SlideseekError(
                f"{path}: version {record['version']!r}, this slideseek reads {VERSION}", "run the benchmark again"
            )
        if record["kind"] not in CELL_KINDS:
            raise SlideseekError(f"{path}: kind {record['kind']!r} is none of {', '.join(CELL_KINDS)}")
        check_form("cell", record, str(path), "remove its folder and run again")
        dataset, protocol = record["dataset"], record["protocol"]
        return Cell(
            folder,
            str(record["key"]),
            cast("CellKind", record["kind"]),
            str(record["name"]),
            str(record["engine"]),
            DatasetFacts(**{name: dataset[name] for name in DatasetFacts.__slots__ if name in dataset}),
            ProtocolFacts(**{name: protocol[name] for name in ProtocolFacts.__slots__ if name in protocol}),
            int(record["seed"]),
            bool(record.get("control", False)),
            record.get("options", {}),
            record.get("sweep", {}),
            record.get("times", {}),
            record.get("bytes_per_slide"),
            record.get("peak_memory_mb"),
            record.get("versions", {}),
            str(record.get("created", "")),
            tuple(record.get("guards_off", ())),
            record.get("not_encoded", {}),
            bool(record.get("trial", False)),
            str(record.get("command", "")),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise SlideseekError(
            f"{path} is not the record of a cell ({type(error).__name__}: {error})", "remove its folder and run again"
        ) from error
