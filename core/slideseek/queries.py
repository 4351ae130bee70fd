"""What can be asked: a slide of the archive, a file, a region of either, a patch image, a patient's slides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from slideseek.archive.archive import Archive
from slideseek.archive.models import load_model
from slideseek.archive.payloads import unpack_code
from slideseek.archive.slide_table import SlideRow
from slideseek.building.ledger import Ledger
from slideseek.engine import Engine, make_engine
from slideseek.errors import SlideseekError, UsageError
from slideseek.interfaces import Slide
from slideseek.types import Bag, Code, SlideRecord


@dataclass(frozen=True, slots=True)
class Query:
    """What is searched for: a code and what is known about its slide.

    fingerprints: name the content of the query's slides, so that they are known under any other id too.
    """

    record: SlideRecord
    code: Code
    fingerprints: frozenset[str]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangle of a slide: top-left corner, width and height, in level-0 pixels or, with `microns`, in µm."""

    x: float
    y: float
    width: float
    height: float
    microns: bool = False

    @classmethod
    def parse(cls, text: str) -> Region:
        """Read `x,y,w,h`, in level-0 pixels, or `x,y,w,h um`."""
        numbers, microns = text.strip(), False
        for unit in ("µm", "um"):
            if numbers.endswith(unit):
                numbers, microns = numbers.removesuffix(unit).strip(), True
        try:
            x, y, width, height = (float(part) for part in numbers.split(","))
        except ValueError as error:
            fix = "write x,y,w,h in level-0 pixels, or with 'um' behind it in µm"
            raise UsageError(f"cannot read the region {text!r}", fix) from error
        return cls(x, y, width, height, microns)

    def pixels(self, mpp: float) -> tuple[int, int, int, int]:
        """Return x, y, width, height in level-0 pixels of a slide of `mpp`."""
        scale = 1 / mpp if self.microns else 1.0
        return round(self.x * scale), round(self.y * scale), round(self.width * scale), round(self.height * scale)


class QueryMaker:
    """Make queries for one engine over one archive. Pixels are read, and models loaded, only when they are needed."""

    def __init__(self, archive: Archive, engine: Engine, ledger: Ledger) -> None:
        self._archive = archive
        self._slides = archive.catalog.slides
        self._engine = engine
        self._ledger = ledger
        self._ready = False

    def stored(self, slide_id: str) -> Query:
        """Ask with a slide of the archive, by its stored code."""
        row = self._row(slide_id)
        record = self._ledger.record(self._engine, "encode", row)
        payload = record and self._archive.catalog.payload(record.key)
        if not payload:
            raise self._without_code(slide_id)
        return Query(row.record, unpack_code(payload, slide_id), frozenset({row.fingerprint}))

    def file(self, path: Path, site: str = "", patient: str = "", mpp: float | None = None) -> Query:
        """Ask with a slide file: selected, featurized and encoded now, and not kept.

        A file whose content is in the archive is that slide: its stored code and record are used.
        """
        from slideseek.slides.identity import fingerprint
        from slideseek.slides.reader import open_slide

        content = fingerprint(path)
        twins = self._slides.by_fingerprint(content)
        for twin in twins:
            if self._ledger.done(self._engine, "encode", twin) and mpp in (None, twin.record.mpp):
                return replace(self.stored(twin.id), notes=(f"{path.name} is slide {twin.id!r} of the archive",))
        with open_slide(path, mpp=mpp) as slide:
            code, notes = self._encode(slide, site, slide.notes)
        if not patient and not twins:
            unknown = f"the patient of {path.name} is unknown, so that patient's slides are not left out: --patient"
            notes = *notes, unknown
        # The path is no slide's id, so a slide of the archive that shares the file's stem is not left out.
        record = SlideRecord(str(path), str(path), patient=patient, site=site)
        return Query(record, code, frozenset({content}), notes)

    def region(self, text: str, region: Region, site: str = "", patient: str = "", mpp: float | None = None) -> Query:
        """Ask with a rectangle of a slide of the archive (its id) or of a slide file."""
        from slideseek.slides.identity import fingerprint
        from slideseek.slides.reader import open_slide
        from slideseek.slides.region import RegionSlide

        row = self._slides.get(text)
        path = self._archive.slide_path(row.record) if row else Path(text)
        with open_slide(path, row.id if row else "", row.record.mpp if row else mpp) as slide:
            part = RegionSlide(slide, *region.pixels(slide.mpp))
            known = row.record if row else SlideRecord(str(path), str(path), patient=patient, site=site)
            code, notes = self._encode(part, known.site, slide.notes)
        return Query(known, code, frozenset({row.fingerprint if row else fingerprint(path)}), notes)

    def patch(self, path: Path, site: str = "", patient: str = "") -> Query:
        """Ask with one patch image, taken as it is: it should show what a patch of the engine's selector shows."""
        from PIL import Image

        from slideseek.slides.refusals import damaged

        self._prepare()
        try:
            with Image.open(path) as image:
                side = min(image.size)
                left, top = (image.width - side) // 2, (image.height - side) // 2
                pixels = np.asarray(image.convert("RGB").crop((left, top, left + side, top + side)))
        except (OSError, Image.DecompressionBombError) as error:
            raise damaged(path, error) from error
        bag = Bag(str(path), self._engine.features(pixels[None]), np.zeros((1, 2), np.int32), site)
        record = SlideRecord(str(path), str(path), patient=patient, site=site)
        return Query(record, self._engine.encode(bag), frozenset())

    def case(self, patient: str) -> Query:
        """Ask with all slides of a patient at once: their patches make one bag."""
        rows = [row for row in self._slides if row.record.patient == patient]
        rows = [row for row in rows if self._ledger.done(self._engine, "featurize", row)]
        if not rows:
            raise UsageError(f"no slide of patient {patient!r} has features", "'slideseek status' lists the slides")
        sites = {row.record.site for row in rows}
        if len(sites) > 1:
            cause = f"patient {patient!r} has slides of {', '.join(sorted(sites))}"
            raise UsageError(cause, "ask with one slide instead")
        self._prepare()
        bags = [self._archive.bag(self._ledger.key(self._engine, "featurize", row), row.record) for row in rows]
        name = f"case {patient}"
        whole = Bag(
            name,
            np.concatenate([bag.features for bag in bags]),
            np.concatenate([bag.xy for bag in bags]),
            sites.pop(),
        )
        record = replace(rows[0].record, id=name, path="", fields={})
        note = f"{len(rows)} slide(s) of patient {patient!r} asked together: {', '.join(row.id for row in rows)}"
        return Query(record, self._engine.encode(whole), frozenset(row.fingerprint for row in rows), (note,))

    def _encode(self, slide: Slide, site: str, notes: Sequence[str]) -> tuple[Code, tuple[str, ...]]:
        """Select, featurize and encode a slide now; return its code and what is worth saying."""
        from slideseek.slides.patch_images import read_mpp
        from slideseek.slides.resolution import finer_than_scanned

        self._prepare()
        patches = self._engine.select(slide)
        if not len(patches):
            raise SlideseekError(f"no tissue found in {slide.id!r}", "look at it with 'slideseek inspect'")
        code = self._engine.encode(self._engine.featurize(slide, patches, site))
        finer = finer_than_scanned(slide.mpp, read_mpp(patches, self._engine.read_side(patches)))
        return code, tuple(note for note in (*notes, finer) if note)

    def _prepare(self) -> None:
        """Make the components, see that they still are what the stored codes were made with, and load the model."""
        if self._ready:
            return
        now = make_engine(self._engine.config, self._engine.registry)
        if now.resolved != self._engine.resolved:
            raise SlideseekError(
                f"the components of engine {self._engine.name!r} have changed since it was built",
                "run 'slideseek build', then search again",
            )
        self._engine = now
        if (encoder := now.trainable) is not None:
            model = self._archive.catalog.model(now.encoder_settings)
            if model is None:
                raise SlideseekError(f"engine {now.name!r} is not fitted yet", "run 'slideseek build'")
            load_model(self._archive.root, encoder, model)
        self._ready = True

    def _row(self, slide_id: str) -> SlideRow:
        row = self._slides.get(slide_id)
        if row is None:
            raise self._without_code(slide_id)
        return row

    def _without_code(self, slide_id: str) -> SlideseekError:
        return SlideseekError(
            f"slide {slide_id!r} has no code of engine {self._engine.name!r}",
            "run 'slideseek build'; 'slideseek status' tells why it failed",
        )
