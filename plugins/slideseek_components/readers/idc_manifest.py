"""Slides of the Imaging Data Commons, from the manifest in the package `idc-index-data`: nothing is downloaded.

`idc:` names all its slides, `idc:tcga_brca` those of a collection. The manifest states patient, collection, licence,
description and size of every series. It states neither resolution nor diagnosis: the resolution is read with the slide,
the site is that of the whole collection, and for TCGA the project in the collection's name is the diagnosis.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from slideseek.did_you_mean import did_you_mean
from slideseek.errors import SlideError, UsageError
from slideseek.interfaces import Remote
from slideseek.slides.remote_path import RemotePath
from slideseek.types import SlideRecord
from slideseek_components.pixels.pyramid import PyramidSlide

SCHEME = "idc:"
_SERIES = re.compile(r"^(?:s3|gs)://idc-open-data[\w-]*/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$")
_WORD = re.compile(r"\w+")
_SIGNED = re.compile(r"^\s*(?P<field>[\w ]+?)\s*(?P<sign>!=|=)\s*(?P<value>.*?)\s*$")
_TCGA = "tcga_"
# What the parts of a description such as "FFPE HE TP DX1" stand for, in words that a person would ask for.
_PARTS = {
    "FFPE": "paraffin",
    "DX": "diagnostic",
    "TP": "primary tumor",
    "TM": "metastatic tumor",
    "TR": "recurrent tumor",
    "NT": "normal tissue",
}
_COLUMNS = {
    "collection": "collection_id",
    "patient": "PatientID",
    "description": "SeriesDescription",
    "license": "license_short_name",
    "series_uid": "SeriesInstanceUID",
    "source_doi": "source_DOI",
    "transfer_syntax": "transfer_syntax_name",
    "url": "series_aws_url",
    "size": "series_size_MB",
}


@dataclass(frozen=True)
class IdcManifest(Remote):
    """List the slides of the Imaging Data Commons."""

    code_revision: ClassVar[int] = 1
    rank: ClassVar[int] = 50

    def claims(self, path: Path, head: bytes) -> bool:
        """Claim `idc:`."""
        return isinstance(path, RemotePath) and str(path).startswith(SCHEME)

    def find(self, path: Path, where: Sequence[str]) -> list[SlideRecord]:
        """Return the slides of a collection, or of all."""
        wanted = str(path).removeprefix(SCHEME).lower()
        rows = _rows(wanted)
        if not rows:
            known = sorted({row["collection"] for row in _rows("")})
            fix = did_you_mean(wanted, known, "'slideseek collections idc:' lists them")
            raise UsageError(f"the Imaging Data Commons has no collection {wanted!r} with slides", fix)
        return list(_matching([_record(row) for row in rows], where))

    def look_up(self, path: Path) -> tuple[int, str] | None:
        """Return None: a collection is not a slide."""
        return None

    def open(self, path: Path, slide_id: str, mpp: float | None) -> PyramidSlide:
        """Raise `SlideError`: a collection is not a slide."""
        raise SlideError(f"{path} is a collection, not a slide", f"add its slides with 'slideseek add {path}'")


def idc_series(url: str) -> str | None:
    """Return the series that a URL in a bucket of the Imaging Data Commons names.

    There a folder is named by the version of the series in it: what lies in it never changes.
    """
    found = _SERIES.match(url)
    return found[1] if found else None


def _rows(collection: str) -> list[dict[str, Any]]:
    """Return the series of slides of one collection, or of all, in the order of collections, patients and names."""
    import pyarrow.compute as compute

    table, site_of = _manifest()
    if collection:
        table = table.filter(compute.equal(table["collection"], collection))
    return [{**row, "site": site_of.get(row["collection"])} for row in table.to_pylist()]


@cache
def _manifest() -> tuple[Any, dict[str, str]]:
    """Return the table of all series of slides, and the site of each collection. Read once: it takes seconds."""
    if importlib.util.find_spec("idc_index_data") is None or importlib.util.find_spec("pyarrow") is None:
        raise SlideError("the manifest of the Imaging Data Commons is not installed", "pip install 'slideseek[idc]'")
    import idc_index_data
    import pyarrow.parquet as parquet

    file = Path(str(idc_index_data.IDC_INDEX_PARQUET_FILEPATH))
    table = parquet.read_table(file, columns=list(_COLUMNS.values()), filters=[("Modality", "=", "SM")])
    order = [(name, "ascending") for name in ("collection", "patient", "description", "series_uid")]
    places = parquet.read_table(file.parent / "collections_index.parquet", columns=["collection_id", "tumor_locations"])
    site_of = {row["collection_id"]: row["tumor_locations"] for row in places.to_pylist()}
    return table.rename_columns(list(_COLUMNS)).sort_by(order), site_of


def _record(row: Mapping[str, Any]) -> SlideRecord:
    collection, patient = str(row["collection"]), str(row["patient"])
    url = str(row["url"]).rstrip("/*")
    tcga = collection.startswith(_TCGA)
    said = str(row["description"] or "")
    meant = " ".join(word for part in said.split() for short, word in _PARTS.items() if part.startswith(short))
    fields = {
        "collection": collection,
        "description": said,
        "kind": meant,
        "license": str(row["license"] or ""),
        "source_doi": str(row["source_doi"] or ""),
        "series_uid": str(row["series_uid"]),
        "transfer_syntax": str(row["transfer_syntax"] or ""),
        "bytes": str(round(float(row["size"] or 0) * 1e6)),
    }
    return SlideRecord(
        f"{patient}.{url.rpartition('/')[2][:8]}",
        url,
        patient=patient,
        site="" if row["site"] in (None, "Various") else str(row["site"]),
        label=collection.removeprefix(_TCGA).upper() if tcga else "",
        center=patient.split("-")[1] if tcga and patient.count("-") >= 2 else "",
        fields=fields,
    )


def _matching(records: Iterable[SlideRecord], where: Sequence[str]) -> Iterator[SlideRecord]:
    """Yield the records with every FIELD=VALUE or FIELD!=VALUE, and with all of the words in their fields."""
    signed = [found for text in where if (found := _SIGNED.match(text))]
    words = {word for text in where if not _SIGNED.match(text) for word in _WORD.findall(text.casefold())}
    for record in records:
        known = {**record.fields, "patient": record.patient, "label": record.label, "center": record.center}
        for found in signed:
            if found["field"] not in known:
                raise UsageError(
                    f"slides of the manifest have no field {found['field']!r}",
                    did_you_mean(found["field"], known, f"fields: {', '.join(known)}"),
                )
        held = set(_WORD.findall(" ".join(known.values()).casefold()))
        if words <= held and all((known[one["field"]] == one["value"]) == (one["sign"] == "=") for one in signed):
            yield record
