"""Queries: a slide, a slide file, a part of either, a patch image, all slides of a patient, or text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from slideseek.archive.archive import Archive
from slideseek.archive.models import load_model
from slideseek.archive.payloads import unpack_code, unpack_patches
from slideseek.archive.slide_table import SlideRow
from slideseek.did_you_mean import near_names
from slideseek.engine import Engine, make_engine
from slideseek.errors import ParameterError, SlideseekError, UsageError
from slideseek.indexing.live_index import changed_makers
from slideseek.indexing.stage_cache import StageCache
from slideseek.interfaces import Slide
from slideseek.searching.located_bags import LocatedBag, fresh_bag, patch_bag, select_in, stored_bag, stored_in
from slideseek.searching.patch_squares import PatchSquares
from slideseek.slides.area import Annotations
from slideseek.slides.area import Region as Region
from slideseek.slides.remote_path import located
from slideseek.types import Bag, Code, Patches, SlideRecord


@dataclass(frozen=True, slots=True)
class Query:
    """A query: a code and what is known about its slide.

    fingerprints: of the content of the query's slides, to recognise them under any id. slide_path: the file with the
    query's pixels; None for a case, which has several slides. source: reads the query's features and squares.
    any_stain: find slides of other stains too.
    """

    record: SlideRecord
    code: Code
    fingerprints: frozenset[str]
    notes: tuple[str, ...] = ()
    slide_path: Path | None = None
    source: Callable[[], LocatedBag] | None = field(default=None, repr=False, compare=False)
    any_stain: bool = False

    @property
    def stain(self) -> str:
        """The stain that hits must have, "" for any."""
        return "" if self.any_stain else self.record.columns.get("stain", "")

    def located(self) -> LocatedBag:
        """Return the query's features and squares, read on first use."""
        if self.source is None:
            raise SlideseekError(f"the features of query {self.record.id!r} were not kept", "create the query again")
        return self.source()

    def bag(self) -> Bag:
        """Return the features the query's code was made from."""
        return self.located().bag

    def squares(self) -> PatchSquares:
        """Return the squares of the query's patches, in level-0 pixels of its whole slide."""
        return self.located().squares


class QueryMaker:
    """Create queries for one engine and one archive. Pixels are read and models loaded only when needed."""

    def __init__(self, archive: Archive, engine: Engine, stages: StageCache) -> None:
        self._archive = archive
        self._slides = archive.catalog.slides
        self._engine = engine
        self._stages = stages
        self._ready = False

    def stored(self, slide_id: str) -> Query:
        """Query with a slide of the archive, using its stored code."""
        row = self._slides.get(slide_id)
        record = row and self._stages.record(self._engine, "encode", row)
        payload = record and record.status == "done" and self._archive.catalog.payload(record.key)
        if not row or not payload:
            raise self._without_code(slide_id, row)
        return Query(
            row.record,
            unpack_code(payload, slide_id),
            frozenset({row.fingerprint}),
            slide_path=self._archive.slide_path(row.record),
            source=cache(lambda: stored_bag(self._archive, self._engine, self._stages, row)),
        )

    def file(
        self, path: Path, *, site: str = "", patient: str = "", center: str = "", mpp: float | None = None
    ) -> Query:
        """Query with a slide file: it is selected, featurized and encoded now, and not stored.

        If the file's content is in the archive, the stored code and record of that slide are used.
        """
        from slideseek.slides.content_fingerprint import fingerprint
        from slideseek.slides.reader import open_slide

        content = fingerprint(path)
        twins = self._slides.by_fingerprint(content)
        for twin in twins:
            if self._stages.done(self._engine, "encode", twin) and mpp in (None, twin.record.mpp):
                return replace(self.stored(twin.id), notes=(f"{path.name} is slide {twin.id!r} of the archive",))
        # The path is not a slide id, so a slide of the archive with the same stem as the file is not excluded.
        record = SlideRecord(str(path), str(path), patient=patient, site=site, center=center)
        self._require_site(record)
        with open_slide(path, mpp=mpp) as slide:
            patches = self._select(slide)
            made, seen = fresh_bag(self.prepared(), slide, patches, site)
            notes = *self._notes(slide, patches, slide.notes), *seen
        record = replace(record, measured=patches.measured)
        if not twins:
            notes = *notes, *_unknown_patient(record)
        return self._asked(record, made, frozenset({content}), notes, path)

    def region(
        self,
        text: str,
        region: Region | Annotations,
        *,
        site: str = "",
        patient: str = "",
        center: str = "",
        mpp: float | None = None,
    ) -> Query:
        """Query with a part of a slide of the archive (its id) or of a slide file.

        Patches are selected within the part; those whose centre lies in it are used. If none has enough tissue for the
        selector, those of a grid shifted to fit the part that show some are.
        """
        from slideseek.slides.content_fingerprint import fingerprint
        from slideseek.slides.reader import open_slide

        row = self._slides.get(text)
        path = self._archive.slide_path(row.record) if row else located(text)
        if row is None and not path.exists():
            raise self.unknown(text)
        content, about = row.fingerprint if row else fingerprint(path), []
        if row is None and (twins := self._slides.by_fingerprint(content)) and mpp in (None, twins[0].record.mpp):
            row = twins[0]
            about.append(f"{path.name} is slide {row.id!r} of the archive")
        if row is not None:
            record, mpp = row.record, row.record.mpp
        else:
            record = SlideRecord(str(path), str(path), patient=patient, site=site, center=center)
            about.extend(_unknown_patient(record))
        self._require_site(record)
        if self._engine.resolved.imported:
            if row is None:
                raise UsageError(
                    f"engine {self._engine.name!r} has imported features: it cannot be queried with a file",
                    "query with a slide of the archive, or use another engine",
                )
            inside = stored_in(stored_bag(self._archive, self._engine, self._stages, row), region)
            count = f"{len(inside.bag)} imported patches have their centre in the region"
            return self._asked(record, inside, frozenset({content}), (*about, count), path)
        with open_slide(path, row.id if row else "", mpp) as slide:
            patches, notes = select_in(self.prepared(), slide, region.area(slide), self._example_patch)
            made, seen = fresh_bag(self.prepared(), slide, patches, record.site)
            notes = *about, *self._notes(slide, patches, slide.notes), *seen, *notes
        record = record if row else replace(record, measured=patches.measured)
        return self._asked(record, made, frozenset({content}), notes, path)

    def patch(
        self, path: Path, *, site: str = "", patient: str = "", center: str = "", mpp: float | None = None
    ) -> Query:
        """Query with one patch image.

        Without `mpp` its central square is taken as one patch at any resolution. With `mpp` (µm per pixel) the field
        of a patch is cut from its centre. Either way it is resized to the side the engine reads patches at; an image
        too small for that is an error.
        """
        record = SlideRecord(str(path), str(path), patient=patient, site=site, center=center)
        self._require_site(record)
        like = self._example_patch()
        made, notes = patch_bag(self.prepared(), path, like, site, mpp)
        return self._asked(record, made, frozenset(), (*notes, *_unknown_patient(record)), path)

    def case(self, patient: str, any_stain: bool = False) -> Query:
        """Query with a patient's slides at once, in one bag; unless `any_stain`, of their most frequent stain only."""
        rows = [row for row in self._slides if row.record.patient == patient]
        rows = [row for row in rows if self._stages.done(self._engine, "featurize", row)]
        if not rows:
            known = set(self._slides.field("patient").values()) - {""}
            hint = "'slideseek status' shows what is missing" if patient in known else _near(patient, known)
            raise UsageError(f"no slide of patient {patient!r} has features", hint)
        sites = {row.record.site for row in rows}
        if len(sites) > 1:
            cause = f"patient {patient!r} has slides of {', '.join(sorted(sites))}"
            raise UsageError(cause, "query with one slide instead")
        stains = Counter(sorted(stain for row in rows if (stain := row.record.columns.get("stain"))))
        stain = stains.most_common(1)[0][0] if stains and not any_stain else ""
        others = [row.id for row in rows if stain and row.record.columns.get("stain", "") not in (stain, "")]
        rows = [row for row in rows if row.id not in others]
        name = f"case {patient}"
        record = replace(rows[0].record, id=name, path="", fields={}, measured={"stain": stain} if stain else {})
        self._require_site(record)
        engine = self.prepared()
        parts = [stored_bag(self._archive, engine, self._stages, row) for row in rows]
        note = f"{len(rows)} slide(s) of patient {patient!r} used together: {', '.join(row.id for row in rows)}"
        note += f"; not used, since their stain is not {stain!r}: {', '.join(others)}" if others else ""
        content = frozenset(row.fingerprint for row in rows)
        return self._asked(record, LocatedBag.joined(name, record.site, parts), content, (note,), None)

    def text(self, text: str, *, site: str = "", patient: str = "", center: str = "") -> Query:
        """Query with words, for an engine whose featurizer or encoder encodes text too."""
        if reason := self._engine.resolved.no_text:
            raise UsageError(
                f"engine {self._engine.name!r} cannot be queried with text: {reason}",
                "use an engine whose featurizer or encoder encodes text: docs/how-to/text-search.md says which",
            )
        name = f'text "{text}"'
        code, bag = self.prepared().encode_text(text, name)
        record = SlideRecord(name, "", patient=patient, site=site, center=center)
        return Query(record, code, frozenset(), source=lambda: LocatedBag.of(bag))

    def unknown(self, text: str) -> UsageError:
        """Return the error for text that is neither a slide of the archive nor a file."""
        return UsageError(f"{text!r} is neither a slide of this archive nor a file", _near(text, self._slides.ids()))

    def prepared(self) -> Engine:
        """Return the engine with components and model loaded, checked to be those of the stored codes."""
        if self._ready:
            return self._engine
        now = make_engine(self._engine.config, self._engine.registry)
        changes = changed_makers(self._archive, now)
        if now.resolved != self._engine.resolved or "reader" in changes:
            raise SlideseekError(
                f"the components of engine {self._engine.name!r} have changed since it was built"
                + (f" ({'; '.join(changes.values())})" if changes else ""),
                "run 'slideseek build', then search again",
            )
        self._engine = now
        if (encoder := now.trainable) is not None:
            model = self._archive.catalog.model(now.encoder_digest)
            if model is None:
                raise SlideseekError(f"engine {now.name!r} is not fitted yet", "run 'slideseek build'")
            now.owner("encoder").call("load()", load_model, self._archive.root, encoder, model)
        self._ready = True
        return now

    def _asked(
        self, record: SlideRecord, made: LocatedBag, content: frozenset[str], notes: Sequence[str], path: Path | None
    ) -> Query:
        """Return a query from features in memory."""
        return Query(record, self.prepared().encode(made.bag), content, tuple(notes), path, source=lambda: made)

    def _select(self, slide: Slide) -> Patches:
        patches = self.prepared().select(slide)
        if not len(patches):
            raise SlideseekError(f"no tissue found in {slide.id!r}", "look at it with 'slideseek inspect'")
        return patches

    def _notes(self, slide: Slide, patches: Patches, notes: Sequence[str]) -> tuple[str, ...]:
        from slideseek.slides.magnification import finer_than_scanned
        from slideseek.slides.patch_images import read_mpp, selection_notes

        finer = finer_than_scanned(slide.mpp, read_mpp(patches, self.prepared().read_side(patches)))
        return tuple(note for note in (*notes, *selection_notes(slide, patches), finer) if note)

    def _example_patch(self) -> Patches:
        """Return the selection of any slide of the archive, which gives the size and resolution of a patch."""
        for row in self._slides:
            payload = self._archive.catalog.payload(self._stages.key(self._engine, "select", row))
            if payload is not None and (patches := unpack_patches(payload, row.id)) and len(patches):
                return patches
        raise SlideseekError(
            f"engine {self._engine.name!r} has selected no patches, so the size of a patch is unknown",
            "run 'slideseek build'; an engine with imported features cannot be queried with an image",
        )

    def _coded_sites(self) -> tuple[str, ...]:
        """Return the sites a conditioned encoder has codes for, sorted; none if codes of all sites are comparable."""
        settings = self._stages.settings_digest(self._engine, "encode")
        first = next(self._archive.catalog.codes(settings), None)
        row = self._slides.get(first[0]) if first else None
        if first is None or row is None or not row.record.site or first[1].meta["space"] != row.record.site:
            return ()
        without = set(self._archive.catalog.work.undone("encode", settings))
        return tuple(sorted({row.record.site for row in self._slides if row.id not in without}))

    def _require_site(self, record: SlideRecord) -> None:
        """Raise an error, before pixels are read, if a conditioned encoder does not know the query's site."""
        known = self._coded_sites()
        if not known or record.site in known:
            return
        what = f"is of site {record.site!r}" if record.site else "has no site"
        cause = f"{record.id!r} {what}, but encoder {self._engine.config.encoder.use!r} needs a site it was fitted on"
        known_sites = f"the model knows {', '.join(known)}"
        if self._slides.get(record.id) is not None or not record.path:
            raise UsageError(cause, f"add the slide again with a manifest that states its site; {known_sites}")
        raise ParameterError("site", f"{cause}; {known_sites}")

    def _without_code(self, slide_id: str, row: SlideRow | None) -> SlideseekError:
        if row is not None:
            try:
                self._require_site(row.record)
            except UsageError as error:
                return error
        return SlideseekError(
            f"slide {slide_id!r} has no code of engine {self._engine.name!r}",
            "run 'slideseek build'; 'slideseek status' shows why it failed",
        )


def _near(text: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown id: the near ones, as a question."""
    near = near_names(text, known)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else "'slideseek status' lists the slides"


def _unknown_patient(record: SlideRecord) -> tuple[str, ...]:
    """Return a note if the query's patient is unknown and so cannot be excluded from the hits."""
    if record.patient:
        return ()
    name = Path(record.path).name
    return (f"the patient of {name} is unknown: slides of the same patient are not excluded",)
