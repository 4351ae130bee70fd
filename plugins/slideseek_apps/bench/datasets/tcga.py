"""TCGA slides as a dataset: patients and centres from the file names, diagnoses from a table."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from slideseek.archive.manifest import Problem
from slideseek.config import CONFIG_NAME
from slideseek.errors import SlideseekError, UsageError
from slideseek.plugins import Registry
from slideseek.types import SlideRecord
from slideseek_apps.bench.datasets.dataset import SPLIT, Source
from slideseek_apps.bench.datasets.feature_files import bare_records, find_files, lazy_bags, match_files
from slideseek_apps.bench.datasets.from_archive import ArchiveData
from slideseek_apps.bench.datasets.gdc_manifest import check_files, read_gdc_manifest
from slideseek_apps.bench.datasets.tcga_names import TcgaName, parse_tcga_name, site_group

_SLIDE_COLUMNS = ("slide_name", "filename", "file_name", "slide_id")
_PROJECT_COLUMNS = ("project_id", "project")


@dataclass(frozen=True)
class Tcga:
    """Take features of TCGA slides: an archive of them, or a folder of feature files named after them.

    The patient is the first twelve characters of the name and the centre its second part. Frozen sections (TS, BS, MS)
    are left out unless frozen = true.

    path: the archive or the feature folder. table: CSV (also .gz) with one row per slide: project and diagnosis. label:
    the column of the table that is the label. sites: `paper` groups projects into the ten sites of the paper's tables
    and leaves other projects out; `primary_site` takes the column of that name. manifest: the GDC manifest; its MD5s
    show which slides are byte-identical. slides: the folder of the download; files there are checked against the
    manifest. engine: the engine of the archive whose features are used.
    """

    path: Path
    table: Path | None = None
    label: str = "project_id"
    sites: Literal["paper", "primary_site"] = "paper"
    frozen: bool = False
    manifest: Path | None = None
    slides: Path | None = None
    engine: str | None = None

    def load(self, registry: Registry) -> Source:
        """Match features, names and table."""
        if self.table is None:
            raise UsageError(
                "TCGA file names do not contain the diagnosis", "pass the table of diagnoses: dataset.table=FILE.csv"
            )
        if self.slides and not self.manifest:
            raise UsageError("dataset.slides is checked against the GDC manifest", "pass dataset.manifest too")
        said = self._table(self.table)
        if (self.path / CONFIG_NAME).is_file():
            source = ArchiveData(self.path, self.engine).load(registry)
        else:
            features = find_files(self.path)
            bare = bare_records(features.files)
            files, problems, notes = match_files(features.files, bare)
            source = Source(features.name, bare, lazy_bags(files, {}), {}, tuple(problems), (*features.notes, *notes))
        return self._named(source, said)

    def _named(self, source: Source, said: Mapping[str, Mapping[str, str]]) -> Source:
        records: list[SlideRecord] = []
        problems = list(source.problems)
        left: Counter[str] = Counter()
        for record in source.records:
            name = parse_tcga_name(record.id) or parse_tcga_name(Path(record.path).name)
            if name is None:
                problems.append(
                    Problem(record.id, "its name is not that of a TCGA slide", "keep the original file name")
                )
            elif name.frozen and not self.frozen:
                left["are frozen sections (set frozen = true to take them)"] += 1
            elif (row := said.get(name.slide)) is None:
                left[f"are not in {self.table.name if self.table else ''}"] += 1
            elif not (site := self._site(row)):
                left["are of projects the paper's tables leave out (set sites = 'primary_site' to take them)"] += 1
            elif not row[self.label].strip():
                left[f"have no {self.label} in the table"] += 1
            else:
                records.append(self._record(record, name, row, site))
        identities = dict(source.identities)
        if self.manifest is not None:
            listed = read_gdc_manifest(self.manifest)
            md5 = {file.filename.partition(".")[0]: file.md5.lower() for file in listed}
            named = {
                record.id: parse_tcga_name(record.id) or parse_tcga_name(Path(record.path).name) for record in records
            }
            identities |= {i: f"md5:{md5[name.slide]}" for i, name in named.items() if name and name.slide in md5}
            if self.slides is not None:
                problems.extend(check_files(listed, self.slides))
        notes = [f"{count} slide(s) {why}: left out" for why, count in left.items()]
        return Source(source.name, tuple(records), source.bags, identities, tuple(problems), (*source.notes, *notes))

    def _record(self, record: SlideRecord, name: TcgaName, row: Mapping[str, str], site: str) -> SlideRecord:
        fields = {**record.fields, **({SPLIT: row[SPLIT]} if row.get(SPLIT) else {})}
        label = row[self.label].strip().removeprefix("TCGA-")
        return replace(record, patient=name.patient, center=name.center, site=site, label=label, fields=fields)

    def _site(self, row: Mapping[str, str]) -> str:
        if self.sites == "primary_site":
            return row.get("primary_site", "")
        return site_group(next((row[name] for name in _PROJECT_COLUMNS if name in row), ""))

    def _table(self, path: Path) -> dict[str, dict[str, str]]:
        """Return the rows of the table by the slide's name up to the first dot."""
        try:
            data = path.read_bytes()
            text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
            reader = csv.DictReader(io.StringIO(text), restval="")
            rows = list(reader)
        except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
            raise SlideseekError(f"the table {path} cannot be read ({error})", "check the path") from error
        columns = reader.fieldnames or []
        named = next((name for name in _SLIDE_COLUMNS if name in columns), None)
        wanted = [self.label, "primary_site"] if self.sites == "primary_site" else [self.label]
        missing = [name for name in wanted if name not in columns]
        if self.sites == "paper" and not set(_PROJECT_COLUMNS) & set(columns):
            missing.append(_PROJECT_COLUMNS[0])
        if named is None or missing:
            lacks = ", ".join(missing) or " or ".join(_SLIDE_COLUMNS)
            raise SlideseekError(f"{path} has no column {lacks} (columns: {', '.join(columns)})", "rename the column")
        return {str(row[named]).partition(".")[0]: row for row in rows}
