"""How the engines of a section were trained: on what, how long, with which options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slideseek_apps.bench.report.sections import Section
from slideseek_apps.bench.report.table import Column, Row, Table
from slideseek_apps.bench.results import Cell

EPOCHS = "epochs"
_UNKNOWN = "–"


def training_table(section: Section) -> Table:
    """Return one row per variant: how it was kept from seeing its queries, its epochs and its seeds."""
    rows = []
    for variant in section.variants:
        cell = variant.first
        learns = cell.protocol.fit != "none"
        epochs = epochs_of(cell)
        seconds = variant.cost(lambda one: one.times.get("fit_s")) if learns else _UNKNOWN
        entries = (
            cell.protocol.fit if learns else "nothing is learnt",
            folds_of(cell) if learns else _UNKNOWN,
            epochs if learns and epochs else _UNKNOWN,
            ", ".join(map(str, variant.seeds)) if learns else _UNKNOWN,
            seconds,
        )
        rows.append(Row((variant.name,), entries))
    caption = (
        "Fit: how an engine was kept from seeing its queries; folds keep patients apart. All options, defaults "
        "included, are in the table of options."
    )
    columns = (*(Column(name) for name in ("fit", "folds", EPOCHS, "seeds used")), Column("fit s", "cost"))
    return Table("training", "How the engines were trained", caption, ("engine",), columns, tuple(rows))


def folds_of(cell: Cell) -> str:
    """Return the number of folds of a cell, in words where it is not a plain number."""
    folds = cell.protocol.folds
    return _UNKNOWN if folds < 0 or cell.protocol.fit != "folds" else str(folds) if folds else "one per patient"


def epochs_of(cell: Cell) -> str:
    """Return the epochs of a cell's engine, of all its parts; "" if it has no such option."""
    found = {value for name, value in _flat(cell.options) if name.rpartition(".")[2] == EPOCHS and value is not None}
    return ", ".join(map(str, sorted(found)))


def options_table(section: Section) -> Table:
    """Return every option of encoder and index, defaults included, one column per variant."""
    known = [dict(_flat(variant.first.options)) for variant in section.variants]
    names = sorted({name for one in known for name in one}, key=lambda name: (name.split(".")[0] != "encoder", name))
    rows = [Row((name,), tuple(_spelled(one[name]) if name in one else _UNKNOWN for one in known)) for name in names]
    columns = tuple(Column(variant.name) for variant in section.variants)
    caption = "All options that decide a result, of the first seed. A dash: the component has no such option."
    return Table("options", "Options of the engines", caption, ("option",), columns, tuple(rows), appendix=True)


def _flat(options: Mapping[str, Any], above: str = "") -> list[tuple[str, Any]]:
    """Return options by their path: `encoder.of.components`."""
    found: list[tuple[str, Any]] = []
    for name, value in options.items():
        path = f"{above}.{name}" if above else name
        if isinstance(value, Mapping):
            found += _flat(value, path)
        elif isinstance(value, Sequence) and not isinstance(value, str) and any(isinstance(v, Mapping) for v in value):
            found += [pair for i, part in enumerate(value, 1) for pair in _flat(part, f"{path}.{i}")]
        else:
            found.append((path, value))
    return found


def _spelled(value: Any) -> str:
    if value is None:
        return _UNKNOWN
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
