"""Parse TCGA file names, and group projects into the ten sites of the paper's tables."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = re.compile(
    r"(?P<patient>TCGA-(?P<center>[A-Z0-9]{2})-[A-Z0-9]{4})-(?P<sample>\d\d[A-Z])-\d\d-(?P<kind>[A-Z]{2})[A-Z0-9]{0,2}\b"
)
DIAGNOSTIC = "DX"
"""Slides of formalin-fixed tissue; TS, BS and MS are frozen sections (top, bottom, middle)."""

SITE_GROUPS: dict[str, tuple[str, ...]] = {
    "Brain": ("LGG", "GBM"),
    "Endocrine": ("THCA", "ACC", "PCPG"),
    "Gastrointestinal": ("ESCA", "COAD", "STAD", "READ"),
    "Gynaecological": ("UCS", "UCEC", "CESC", "OV"),
    "Haematopoietic": ("THYM", "DLBC"),
    "Liver, pancreas": ("CHOL", "LIHC", "PAAD"),
    "Melanocytic": ("SKCM", "UVM"),
    "Prostate, testis": ("PRAD", "TGCT"),
    "Pulmonary": ("LUAD", "LUSC", "MESO"),
    "Urinary tract": ("BLCA", "KIRC", "KIRP", "KICH"),
}
"""The 29 projects of the paper's Table 1 by its ten sites."""


@dataclass(frozen=True, slots=True)
class TcgaName:
    """The parts of a name such as TCGA-B8-5164-01Z-00-DX1.UUID.svs.

    patient: the first twelve characters. center: the tissue source site. slide: the name up to the first dot.
    """

    patient: str
    center: str
    slide: str
    frozen: bool


def parse_tcga_name(name: str) -> TcgaName | None:
    """Return the parts of a file name, None when it is not that of a TCGA slide."""
    found = _NAME.match(name)
    if found is None:
        return None
    return TcgaName(found["patient"], found["center"], name.partition(".")[0], found["kind"] != DIAGNOSTIC)


def site_group(project: str) -> str:
    """Return the paper's site of a project (`TCGA-LUAD` or `LUAD`), "" for one its tables leave out."""
    code = project.removeprefix("TCGA-")
    return next((site for site, projects in SITE_GROUPS.items() if code in projects), "")
