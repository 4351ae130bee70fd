"""The slides of the paper's Table 1: TCGA diagnostic slides of 29 projects at ten sites, and how many the paper had.

The subtypes of the table are TCGA projects. A TCGA collection of the Imaging Data Commons is one project, which is the
subtype of its slides. Which slides the paper drew as its test side is not published.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slideseek.archive.manifest import Manifest, Problem, manifest_of, read_manifest
from slideseek.errors import UsageError
from slideseek.slides.remote_path import RemotePath
from slideseek.slides.remote_slides import find_remote
from slideseek.types import SlideRecord
from slideseek_apps.bench.datasets.tcga_names import SITE_GROUPS, site_group

CATALOGUE = "idc:"
DIAGNOSTIC = "FFPE diagnostic"
TEST_SHARE = 0.4
"""The share of the slides that the paper drew as its test side."""

STATED_TEST_SLIDES = (3761, 3770)
"""Test slides as the paper's text and the caption of its Table 1 state them."""

PAPER_TEST_SLIDES: dict[str, int] = {
    "LGG": 323,
    "GBM": 387,
    "THCA": 198,
    "ACC": 93,
    "PCPG": 70,
    "ESCA": 55,
    "COAD": 174,
    "STAD": 157,
    "READ": 61,
    "UCS": 37,
    "UCEC": 206,
    "CESC": 113,
    "OV": 42,
    "THYM": 80,
    "DLBC": 14,
    "CHOL": 17,
    "LIHC": 146,
    "PAAD": 65,
    "SKCM": 184,
    "UVM": 40,
    "PRAD": 176,
    "TGCT": 112,
    "LUAD": 218,
    "LUSC": 198,
    "MESO": 27,
    "BLCA": 193,
    "KIRC": 195,
    "KIRP": 142,
    "KICH": 47,
}
"""The column of slides of the paper's Table 1, by subtype."""


@dataclass(frozen=True, slots=True)
class PaperSlides:
    """The slides to take. source: where they are listed. notes: what was left out. problems: unusable rows."""

    source: str
    records: tuple[SlideRecord, ...]
    notes: tuple[str, ...]
    problems: tuple[Problem, ...] = ()

    def manifest(self) -> tuple[Path, Manifest]:
        """Return the slides as a manifest, to be added to an archive."""
        return manifest_of(self.source, self.records)


def paper_slides(listed: Path | None, each: int = 0) -> PaperSlides:
    """Return the slides of the 29 projects, with the paper's sites, from the Imaging Data Commons or from a CSV.

    listed: a manifest with the project (`LUAD` or `TCGA-LUAD`) as diagnosis. each: at most so many slides per subtype,
    of different patients as far as possible; 0 for all.
    """
    problems: tuple[Problem, ...] = ()
    if listed is None:
        found = list(find_remote(RemotePath(CATALOGUE), [DIAGNOSTIC]))
        source = f"{CATALOGUE}tcga, {DIAGNOSTIC}"
    else:
        manifest = read_manifest(listed)
        problems, source = tuple(manifest.problems), listed.name
        found = [
            SlideRecord(row.id, row.path, row.patient, row.site, row.label, row.center, row.mpp, fields=row.fields)
            for row in manifest.rows
        ]
    ours = [(record, record.label.removeprefix("TCGA-")) for record in found]
    taken = [replace(record, site=site_group(code), label=code) for record, code in ours if site_group(code)]
    left = Counter(code or record.fields.get("collection", "?") for record, code in ours if not site_group(code))
    if not taken:
        raise UsageError(
            f"{source} lists no slide of the paper's 29 projects",
            "state the project in the column diagnosis, such as LUAD or TCGA-LUAD",
        )
    notes = []
    if left:
        some = ", ".join(f"{code} {count}" for code, count in left.most_common(6))
        notes.append(f"{sum(left.values())} slide(s) of projects that the paper's tables leave out: {some}")
    if each:
        taken = _some_of_each(taken, each)
        notes.append(f"at most {each} slide(s) of each subtype: a trial, not a result")
    return PaperSlides(source, tuple(taken), tuple(notes), problems)


def subtypes() -> list[tuple[str, str]]:
    """Return the sites and subtypes in the order of the table."""
    return [(site, code) for site, codes in SITE_GROUPS.items() for code in codes]


def _some_of_each(records: Sequence[SlideRecord], each: int) -> list[SlideRecord]:
    """Return the first slides of each subtype, those of new patients first."""
    seen: dict[str, set[str]] = defaultdict(set)
    ranked = []
    for record in records:
        again = record.patient in seen[record.label]
        seen[record.label].add(record.patient)
        ranked.append((again, record))
    ranked.sort(key=lambda pair: pair[0])
    taken: Counter[str] = Counter()
    chosen = []
    for _, record in ranked:
        if taken[record.label] < each:
            taken[record.label] += 1
            chosen.append(record)
    return chosen
