"""Read a manifest: a CSV file with the patient, site, diagnosis and centre of each slide."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slideseek.did_you_mean import nearest
from slideseek.errors import UsageError
from slideseek.types import SlideRecord

# Role of a column and the headings it is known by, preferred first. A second column of the same role stays
# a free field.
ALIASES: dict[str, tuple[str, ...]] = {
    "id": ("slide_id", "slide", "wsi", "filename"),
    "path": ("path", "file", "file_path", "filepath", "filename"),
    "patient": ("case_id", "patient", "patient_id"),
    "site": ("primary_site", "site"),
    "label": ("diagnosis", "subtype", "label", "project_id"),
    "center": ("center", "centre", "tss", "source_site"),
    "mpp": ("mpp",),
    "contours": ("contours", "annotations", "geojson"),
}
MAX_BYTES = 256 << 20
MAX_ID = 1000


@dataclass(frozen=True, slots=True)
class ManifestRow:
    """One usable row. `path` is empty if the row has no file; `contours` if it has no tissue outline."""

    line: int
    id: str
    path: str
    patient: str
    site: str
    label: str
    center: str
    mpp: float | None
    contours: str
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a slide was not added: its subject, the cause and the fix."""

    subject: str
    cause: str
    fix: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a manifest: usable rows, problems with other rows, and notes.

    roles: the roles that have a column (`patient`, `site`, ...).
    """

    rows: Sequence[ManifestRow]
    roles: Collection[str]
    problems: Sequence[Problem]
    notes: Sequence[str]


def read_manifest(path: Path, allow_missing_patient: bool = False) -> Manifest:
    """Read a manifest; bad rows become problems and good rows are kept.

    A row without a patient could put one patient on both sides of a comparison. It is a problem, unless
    `allow_missing_patient` makes each such slide its own patient. Two different rows for one slide are a problem; two
    identical rows are a note.
    """
    header, lines = _read(path)
    columns, notes = _columns(header, path)
    rows: dict[str, ManifestRow] = {}
    conflicting: dict[str, list[int]] = {}
    problems: list[Problem] = []
    for line, cells in lines:
        if not any(cell.strip() for cell in cells):
            continue
        values = dict(zip(header, (c.strip() for c in cells)))
        if len(cells) > len(header):
            problems.append(
                Problem(f"{path.name} line {line}", f"{len(cells)} cells, {len(header)} columns", "quote the commas")
            )
            continue
        row = _row(line, values, columns)
        if problem := _problem(row, values, columns, path, allow_missing_patient):
            problems.append(problem)
        elif row.id in rows and not _same(rows[row.id], row):
            conflicting.setdefault(row.id, [rows[row.id].line]).append(line)
        elif row.id in rows:
            notes.append(f"{path.name} line {line}: slide {row.id!r} again, same as line {rows[row.id].line}; ignored")
        else:
            rows[row.id] = row
    for slide_id, where in conflicting.items():
        del rows[slide_id]
        problems.append(
            Problem(
                slide_id,
                f"duplicate slide in {path.name}: lines {', '.join(map(str, where))} differ",
                "keep one of the rows",
            )
        )
    return Manifest(list(rows.values()), tuple(columns), problems, notes)


def manifest_of(name: str, records: Sequence[SlideRecord]) -> tuple[Path, Manifest]:
    """Return records of slides as a manifest, and what it is called in messages."""
    roles = [role for role in ALIASES if any(getattr(record, role) for record in records)]
    given = [{**{role: getattr(record, role) for role in ALIASES}, "fields": record.fields} for record in records]
    return Path(name), Manifest([ManifestRow(line, **row) for line, row in enumerate(given, 1)], roles, (), ())


def _read(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(
                f"{path} is larger than {MAX_BYTES >> 20} MiB", "a manifest is a CSV with one row per slide"
            )
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read the manifest {path}: {error.strerror}", "check the path") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the manifest {path} is not UTF-8 text (byte {error.start})", "save it as UTF-8") from error
    first = text.partition("\n")[0]
    delimiter = max((",", ";", "\t"), key=first.count)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        lines = [(reader.line_num, cells) for cells in reader]
    except csv.Error as error:
        raise UsageError(f"the manifest {path} is not a CSV: {error} (line {reader.line_num})") from error
    if not header:
        raise UsageError(f"the manifest {path} is empty", "put the column names on the first line")
    return header, lines


def _columns(header: list[str], path: Path) -> tuple[dict[str, str], list[str]]:
    """Map each role to its heading, and note which columns are kept as free fields."""
    plain = {h.lower().replace(" ", "_").replace("-", "_"): h for h in header}
    if len(plain) != len(header):
        twice = sorted({h for h in header if header.count(h) > 1}) or header
        raise UsageError(f"{path.name}: column {twice[0]!r} appears twice", "name each column once")
    columns: dict[str, str] = {}
    for role, names in ALIASES.items():
        for name in names:
            if name in plain and plain[name] not in columns.values():
                columns[role] = plain[name]
                break
    if "id" not in columns:
        raise UsageError(
            f"{path.name} has no column that names the slide (found: {', '.join(header)})",
            f"name one of {', '.join(ALIASES['id'])}",
        )
    notes = []
    every_alias = {name for names in ALIASES.values() for name in names}
    free = []
    for name, heading in plain.items():
        if heading not in columns.values():
            near = nearest(name, every_alias, cutoff=0.8)
            free.append(f"{heading!r}" + (f" (did you mean {near!r}?)" if near and near != name else ""))
    if free:
        notes.append(
            f"{path.name}: unknown column(s) kept as free fields: {', '.join(free)}"
            f" -> rename it to one of {', '.join(names[0] for names in ALIASES.values())},"
            " or leave it: it can be filtered with --where NAME=VALUE"
        )
    if "patient" not in columns:
        notes.append(f"{path.name}: no patient column, so every slide counts as its own patient")
    return columns, notes


def _row(line: int, values: Mapping[str, str], columns: Mapping[str, str]) -> ManifestRow:
    def cell(role: str) -> str:
        return values.get(columns.get(role, ""), "")

    slide_id, path = cell("id"), cell("path")
    if columns["id"].lower() == "filename":  # only the file's name is given: the id is its stem
        path, slide_id = slide_id, Path(slide_id).stem
    mpp = _number(cell("mpp"))
    free = {h: v for h, v in values.items() if h not in columns.values()}
    return ManifestRow(
        line,
        slide_id,
        path,
        patient=cell("patient"),
        site=cell("site"),
        label=cell("label"),
        center=cell("center"),
        mpp=mpp,
        contours=cell("contours"),
        fields=free,
    )


def _problem(
    row: ManifestRow, values: Mapping[str, str], columns: Mapping[str, str], path: Path, allow_missing_patient: bool
) -> Problem | None:
    where = f"{path.name} line {row.line}"
    if not row.id:
        return Problem(where, f"no slide in column {columns['id']!r}", "fill it in")
    if not row.id.isprintable() or len(row.id) > MAX_ID:
        shown = ascii(row.id[:40])
        return Problem(where, f"slide id {shown} is too long or contains control characters", "use a plain name")
    if "patient" in columns and not row.patient and not allow_missing_patient:
        return Problem(
            row.id,
            f"missing patient in {where}, column {columns['patient']!r}",
            "fill it in, or pass --allow-missing-patient to count the slide as its own patient",
        )
    stated = values.get(columns.get("mpp", ""), "")
    if stated and (row.mpp is None or not 0 < row.mpp < float("inf")):
        return Problem(row.id, f"mpp is {stated!r} in {where}", "give µm per pixel as a number, such as 0.5")
    return None


def _number(text: str) -> float | None:
    """Return a number; a decimal comma is read as one ("0,25"), digits in groups of three are not a number."""
    if text.count(",") == 1 and "." not in text:
        text = text.replace(",", ".")
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _same(one: ManifestRow, other: ManifestRow) -> bool:
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("path", "patient", "site", "label", "center", "mpp", "contours", "fields")
    )
