"""Check stored patches, codes and features against their SHA-256."""

from __future__ import annotations

from collections.abc import Iterator

from slideseek.archive.archive import Archive
from slideseek.archive.records import Payload, Stage
from slideseek.digests import digest_bytes, sha256_file
from slideseek_apps.doctor.finding import Finding, counted

SAMPLE = 50
"""Feature files to read unless all are requested. Reading all may take hours."""

STAGES: tuple[Stage, ...] = ("select", "featurize", "encode")
PLACELESS = "imported without coords"
"""The note of 'slideseek import' on a selection of which it keeps no positions: it has no payload to miss."""

_FIX = "run 'slideseek build --verify' to compute them again; check the disk"


def look_at_payloads(archive: Archive, everything: bool) -> Iterator[Finding]:
    """Yield how many payloads are missing or damaged. everything: read all feature files, else a sample of `SAMPLE`."""
    done = [record for record in archive.catalog.stages() if record.status == "done" and record.stage in STAGES]
    keys = [record.key for record in done if not (record.stage == "select" and PLACELESS in record.notes)]
    inside: dict[str, list[bool]] = {"patches": [], "code": []}
    files: list[Payload] = []
    absent = 0
    for key in dict.fromkeys(keys):
        payload = archive.catalog.payload(key)
        if payload is None:
            absent += 1
        elif payload.file is not None or payload.kind == "features":
            files.append(payload)
        else:
            inside[payload.kind].append(payload.data is not None and digest_bytes(payload.data) == payload.sha256)
    for kind, sound in inside.items():
        yield _counts("codes" if kind == "code" else kind, len(sound), sound.count(False), "damaged")
    if absent:
        yield Finding("archive", "results", "fail", f"{counted(absent, 'result')} missing from the catalogue", _FIX)
    gone = [one for one in files if not (archive.root / (one.file or "")).is_file()]
    yield _counts("feature files", len(files), len(gone), "missing")
    there = [one for one in files if one not in gone]
    chosen = there if everything else there[:: max(1, -(-len(there) // SAMPLE))]
    damaged = sum(sha256_file(archive.root / (one.file or "")) != one.sha256 for one in chosen)
    name = "features" if everything or len(chosen) == len(there) else f"features ({len(chosen)} of {len(there)} read)"
    yield _counts(name, len(chosen), damaged, "damaged")


def _counts(name: str, count: int, wrong: int, how: str) -> Finding:
    if wrong:
        return Finding("archive", name, "fail", f"{wrong} of {count} {how}", _FIX)
    return Finding("archive", name, "ok", f"{count} {'undamaged' if how == 'damaged' else 'present'}")
