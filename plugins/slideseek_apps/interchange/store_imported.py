"""Store the imported features of one slide as the results of two stages, in one commit."""

from __future__ import annotations

from typing import Literal, TypeAlias

from slideseek.archive.archive import Archive
from slideseek.archive.payloads import pack_patches, store_features
from slideseek.archive.records import Stage, StageRecord
from slideseek.archive.slide_table import SlideRow
from slideseek.digests import canonical_json, digest, digest_bytes, sha256_file
from slideseek.indexing.stage_cache import feature_folder, feature_key
from slideseek.types import Bag
from slideseek_apps.interchange.imported_engine import SetSettings
from slideseek_apps.interchange.patch_places import Placed

Outcome: TypeAlias = Literal["imported", "replaced", "unchanged"]

WITHOUT_COORDS = "imported without coords"


def store_imported(
    archive: Archive, settings: SetSettings, slide: SlideRow, bag: Bag, placed: Placed, real_places: bool
) -> Outcome:
    """Store a slide, its patches and its features, and return whether they are new.

    The content is part of the selection's key, so changed features get other keys, and everything computed from the
    old ones is computed again. Made-up positions are not stored as a selection: no featurizer may read pixels there.
    """
    catalog = archive.catalog
    select = import_key(settings, slide, bag, placed, real_places)
    key = feature_key(settings.features, select)
    before = catalog.stage(slide.id, "featurize", settings.features)
    same = before is not None and before.key == key
    if same and _whole(archive, key):
        with catalog.transaction():
            _put_slide(archive, slide)
        return "unchanged"
    patches = pack_patches(select, placed.patches, placed.slide_mpp)
    features = store_features(
        archive.root, feature_folder(settings.features), key, bag, placed.patches, placed.slide_mpp
    )
    notes = () if real_places else (WITHOUT_COORDS,)

    def record(stage: Stage, name: str, result: str, size: int) -> StageRecord:
        return StageRecord(slide.id, stage, name, result, "done", notes=notes, items=len(bag), bytes=size)

    with catalog.transaction():
        _put_slide(archive, slide)
        if before is not None and not same:
            catalog.forget_stages(slide.id, ("encode",))  # a search must not find a code of the old features
        if real_places:
            catalog.put_payload(patches)
        catalog.put_stage(record("select", settings.select, select, len(patches.data or b"")))
        catalog.put_payload(features)
        size = (archive.root / (features.file or "")).stat().st_size
        catalog.put_stage(record("featurize", settings.features, key, size))
    return "replaced" if before is not None and before.status == "done" and not same else "imported"


def import_key(settings: SetSettings, slide: SlideRow, bag: Bag, placed: Placed, real_places: bool) -> str:
    """Return the key of an imported selection: the set, the slide, and all values of features and positions."""
    patches = placed.patches
    content = digest_bytes(
        canonical_json([patches.size, placed.slide_mpp, real_places, *bag.features.shape]).encode(),
        bag.features.data,
        patches.xy.data,
        patches.mpp.data,
    )
    return digest(["import", settings.select, slide.id, content])


def _put_slide(archive: Archive, slide: SlideRow) -> None:
    before = archive.catalog.slides.get(slide.id)
    if before == slide:
        return
    archive.catalog.slides.put(slide)
    if before is not None and before.record.site != slide.record.site:
        archive.catalog.forget_stages(slide.id, ("encode",))


def _whole(archive: Archive, key: str) -> bool:
    """Return whether the features stored under a key exist and are undamaged."""
    payload = archive.catalog.payload(key)
    file = archive.root / payload.file if payload and payload.file else None
    return bool(payload and file and file.is_file() and sha256_file(file) == payload.sha256)
