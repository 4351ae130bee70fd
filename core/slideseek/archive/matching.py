"""Match the rows of a manifest to slide files, and give ids to slides without a manifest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from slideseek.archive.manifest import Manifest, ManifestRow, Problem
from slideseek.slides.discovery import find_slides
from slideseek.slides.file_formats import has_slide_name
from slideseek.slides.remote_path import located
from slideseek.types import is_url


def match_rows(
    manifest: Manifest, folder: Path, files: Sequence[Path]
) -> tuple[list[tuple[ManifestRow, Path]], list[Problem], list[Path]]:
    """Find the file of each row; return the matches, the rows without a file, and the files without a row.

    A path in the manifest is relative to the manifest's folder, or else the end of a given file's path. Without a
    path, a file matches by its full name, its stem, or the part before the first dot (file names may have a suffix
    such as a UUID). A DICOM series lies in a folder of its own: a row may name that folder, by its path or its name.
    """
    by_name: dict[str, list[Path]] = defaultdict(list)
    for file in files:
        for name in {file.name, file.stem, file.name.partition(".")[0]}:
            by_name[name].append(file)
        if file.suffix.lower() == ".dcm":
            by_name[file.parent.name].append(file)
    matches: list[tuple[ManifestRow, Path]] = []
    problems: list[Problem] = []
    for row in manifest.rows:
        found = _candidates(row, folder, by_name)
        if len(found) == 1 and found[0] == folder / row.path and found[0] not in files and not _is_slide(found[0]):
            cause = f"{row.path!r} does not have the name of a slide"  # a manifest from elsewhere may name any file
            problems.append(Problem(row.id, cause, "pass the file itself if it is one"))
        elif len(found) == 1:
            matches.append((row, found[0]))
        elif found:
            listed = ", ".join(str(f) for f in found[:3])
            problems.append(Problem(row.id, f"{len(found)} files match ({listed})", "name the file in a column 'path'"))
        else:
            what = row.path or row.id
            problems.append(
                Problem(row.id, f"no file found for {what!r}", "check the name, or pass the folder that holds it")
            )
    by_file: dict[Path, list[ManifestRow]] = defaultdict(list)
    for row, path in matches:
        by_file[path.resolve()].append(row)
    for path, rows in by_file.items():
        if len(rows) > 1:  # one slide under two ids could be on both sides of a comparison
            lines = ", ".join(str(row.line) for row in rows)
            problems.extend(
                Problem(row.id, f"lines {lines} name the same file {path.name}", "keep one of the rows") for row in rows
            )
    single = [(row, path) for row, path in matches if len(by_file[path.resolve()]) == 1]
    named = set(by_file)
    return single, problems, [file for file in files if file.resolve() not in named]


def stem_ids(files: Iterable[tuple[Path, str]], taken: Iterable[str]) -> dict[Path, str]:
    """Give files an id without a manifest: the stem, and if stems collide, the stem and a part of the fingerprint.

    files: (path, fingerprint) pairs. The fingerprint depends on the content, so the id does not depend on the folder.
    """
    pairs = list(files)
    used = set(taken)
    count: dict[str, int] = defaultdict(int)
    for path, _ in pairs:
        count[path.stem] += 1
    ids: dict[Path, str] = {}
    for path, fingerprint in pairs:
        plain = path.stem
        if plain in used or count[plain] > 1:
            plain = f"{plain}~{fingerprint[-8:]}"
        ids[path] = plain
    return ids


def _is_slide(path: Path) -> bool:
    return is_url(str(path)) or has_slide_name(path.name)


def _candidates(row: ManifestRow, folder: Path, by_name: dict[str, list[Path]]) -> list[Path]:
    if is_url(row.path):
        return [located(row.path)]
    if row.path:
        wanted = Path(row.path)
        direct = folder / wanted
        if direct.is_file():
            return [direct]
        if direct.is_dir():
            return find_slides([direct])
        return [
            f
            for f in by_name.get(wanted.name, [])
            if wanted.parts in (f.parts[-len(wanted.parts) :], f.parent.parts[-len(wanted.parts) :])
        ]
    for name in (row.id, Path(row.id).name):
        exact = [f for f in by_name.get(name, []) if name in (f.name, f.stem)]
        if exact or by_name.get(name):
            return exact or by_name[name]
    return []
