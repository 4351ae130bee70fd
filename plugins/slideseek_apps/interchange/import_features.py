"""Import features computed by another tool . An engine then only encodes and indexes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from slideseek.archive.archive import Archive
from slideseek.archive.manifest import Manifest, Problem
from slideseek.errors import SlideError, SlideseekError, message
from slideseek.plugins import Registry
from slideseek.slides.reader import open_slide
from slideseek.types import Bag, Patches
from slideseek_apps.interchange.feature_file import FeatureFile
from slideseek_apps.interchange.feature_folders import FeatureSet
from slideseek_apps.interchange.feature_readers import Entry, read_entry
from slideseek_apps.interchange.imported_engine import SetSettings, configured_width
from slideseek_apps.interchange.match_slides import Candidate, match_files, slide_row
from slideseek_apps.interchange.patch_places import UNKNOWN_MPP, Placed, above_the_slide, place, to_level_0
from slideseek_apps.interchange.store_imported import Outcome, store_imported

SAMPLED = 15
"""Files read to find the width of a set."""


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How to import. without_coords: also import files without coords. For files that do not state it: extent, side of
    a patch in level-0 pixels; patch_mpp, µm per pixel at which patches were read."""

    without_coords: bool = False
    extent: int | None = None
    patch_mpp: float | None = None


@dataclass(slots=True)
class ImportSummary:
    """What an import did, by slide id, and its problems. added: slides that were not in the archive before. whole: one
    vector per slide. parts: the widths of vectors that were put side by side."""

    set: str
    width: int | None
    whole: bool = False
    parts: list[int] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Importer:
    """Import the files of one set into an archive, slide by slide. A bad file is a problem; the import goes on."""

    def __init__(self, archive: Archive, registry: Registry, options: ImportOptions | None = None) -> None:
        self._archive = archive
        self._registry = registry
        self._options = options or ImportOptions()
        self._guessed: Counter[str] = Counter()

    def run(
        self,
        features: FeatureSet,
        manifest: tuple[Path, Manifest] | None = None,
        on_file: Callable[[str], None] | None = None,
    ) -> ImportSummary:
        """Import every file of a set, with one commit per slide.

        The width of the set is the configured one, else the most common one of a sample of the files. A slide of the
        archive keeps its record; others are added with the manifest's metadata, or without any.
        """
        width = configured_width(self._archive.config, features.name)
        summary = ImportSummary(features.name, width, features.whole)
        matches = match_files(self._archive, features.files, manifest)
        summary.notes.extend((*features.notes, *matches.notes))
        summary.problems.extend((*(manifest[1].problems if manifest else ()), *matches.problems))
        if summary.width is None:
            summary.width = common_width([candidate.entry for candidate in matches.candidates])
        for candidate in matches.candidates:
            try:
                outcome = self._import(candidate, summary)
                getattr(summary, outcome).append(candidate.slide_id)
                if candidate.known is None:
                    summary.added.append(candidate.slide_id)
            except SlideseekError as error:
                summary.problems.append(Problem(candidate.entry.label, error.cause, error.fix))
            except OSError as error:
                summary.problems.append(
                    Problem(candidate.entry.label, message(error), "check the disk and the file permissions")
                )
            if on_file:
                on_file(candidate.entry.label)
        summary.notes.extend(self._remarks(summary))
        return summary

    def _import(self, candidate: Candidate, summary: ImportSummary) -> Outcome:
        file = read_entry(candidate.entry)
        width = file.features.shape[1]
        self._check_kind(file, summary)
        if summary.width is None:
            summary.width = width
        elif width != summary.width:
            raise SlideError(
                f"its features have {width} values per patch, those of set {summary.set!r} have {summary.width}",
                "import it as another set with --set, or correct 'width' in the configuration",
            )
        settings = SetSettings.of(self._registry, summary.set, width)
        slide = slide_row(self._archive, candidate)
        placed = self._place(candidate, file, slide.record.mpp)
        bag = Bag(slide.id, file.features, placed.patches.xy, slide.record.site)
        return store_imported(self._archive, settings, slide, bag, placed, real_places=file.placed)

    def _check_kind(self, file: FeatureFile, summary: ImportSummary) -> None:
        """Refuse patches among vectors of whole slides, such a vector among patches, and other widths side by side."""
        summary.parts = summary.parts or list(file.parts)
        if summary.parts != list(file.parts):
            widths, others = (" + ".join(map(str, parts)) for parts in (file.parts, summary.parts))
            raise SlideError(f"its vectors have widths {widths}, others {others}", "leave it out")
        if file.whole == summary.whole:
            return
        one, other = ("a vector of the whole slide", "features of patches")[:: 1 if file.whole else -1]
        raise SlideError(f"it has {one}, the others of set {summary.set!r} have {other}", "leave it out")

    def _place(self, candidate: Candidate, file: FeatureFile, stated_mpp: float | None) -> Placed:
        known = stated_mpp or file.slide_mpp or not file.placed
        mpp = stated_mpp if known else self._measured_mpp(candidate)
        xy = file.xy
        if file.places is not None:
            file, xy = to_level_0(file, file.places, mpp, self._options.patch_mpp)
        if xy is None:
            if not file.whole and not self._options.without_coords:
                raise SlideError(
                    "it has no 'coords', so the positions of its patches are unknown",
                    "pass --without-coords to import it anyway; its patches then cannot be shown",
                )
            self._guessed["coords"] += not file.whole
            xy = above_the_slide(len(file.features))
            return Placed(Patches.at(candidate.slide_id, xy, 1, UNKNOWN_MPP), UNKNOWN_MPP)
        placed = place(candidate.slide_id, file, xy, mpp, self._options.extent)
        self._guessed.update(placed.guessed)
        return placed

    def _measured_mpp(self, candidate: Candidate) -> float | None:
        """Return the resolution in the slide file. A magnification in a feature file is only nominal."""
        if candidate.known is None or not candidate.pixels:
            return None
        try:
            with open_slide(self._archive.slide_path(candidate.known.record)) as slide:
                return slide.mpp
        except SlideError:
            return None

    def _remarks(self, summary: ImportSummary) -> Iterator[str]:
        """Yield notes on what was guessed, and on what cannot be done with slides without pixels."""
        guessed = self._guessed
        if guessed["spacing"]:
            yield (
                f"{guessed['spacing']} file(s) do not state the patch size, so the spacing of the patches is used;"
                " pass --patch-size to state it"
            )
        if guessed["extent"]:
            yield f"{guessed['extent']} file(s) do not state the patch size; pass --patch-size to state it"
        if guessed["mpp"]:
            yield (
                f"{guessed['mpp']} file(s) do not state the slide's resolution, so {UNKNOWN_MPP:g} µm/px is assumed"
                " and lengths in µm are meaningless; state it in an `mpp` column of the manifest"
            )
        if guessed["coords"]:
            yield f"{guessed['coords']} file(s) have no coords: their patches cannot be shown or exported"
        if summary.added:
            yield (
                f"{len(summary.added)} slide(s) have features but no slide file: engines that read pixels"
                " cannot use them"
            )


def common_width(files: Sequence[Entry]) -> int | None:
    """Return the most common width of the features in a sample of files; None if none can be read.

    Equally common widths: the one that comes first. One odd file thus does not decide the width of a set.
    """
    step = max(1, len(files) // SAMPLED)
    widths: Counter[int] = Counter()
    for file in files[::step][:SAMPLED]:
        with suppress(SlideError):  # reported when it is imported
            widths[read_entry(file).features.shape[1]] += 1
    return widths.most_common(1)[0][0] if widths else None
