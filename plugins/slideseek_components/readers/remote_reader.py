"""Slides at URLs that fsspec reaches: S3, Google Cloud Storage, the web and others."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar, cast

from PIL import Image

from slideseek.errors import SlideError
from slideseek.interfaces import Remote
from slideseek.slides.file_formats import HAMAMATSU_SUFFIXES, has_slide_name
from slideseek.slides.reader import open_slide
from slideseek.slides.remote_path import RemotePath
from slideseek.slides.slide_errors import DeclinedError
from slideseek.types import SlideRecord, UInt8
from slideseek_components.pixels.pyramid import PyramidSlide, as_pyramid
from slideseek_components.readers.idc_manifest import idc_series
from slideseek_components.readers.object_cache import CachedFile, CachedObject, ObjectCache
from slideseek_components.readers.object_store import StoredObject, all_below, bare, known_scheme, objects_at
from slideseek_components.readers.remote_tiff import RemoteTiff
from slideseek_components.readers.tiff_layout import MAGIC

DICOM_SUFFIX = ".dcm"


@dataclass(frozen=True)
class RemoteReader(Remote):
    """Read tiled TIFF and SVS by ranges; fetch any other slide into the cache, and open it there.

    Leaves DICOM to the reader of DICOM.
    """

    code_revision: ClassVar[int] = 2
    rank: ClassVar[int] = 100

    def claims(self, path: Path, head: bytes) -> bool:
        """Claim URLs, no files."""
        return isinstance(path, RemotePath) and known_scheme(str(path))

    def find(self, path: Path, where: Sequence[str]) -> list[SlideRecord]:
        """Return a slide, a DICOM series (a folder of .dcm objects), or the slides below a folder."""
        if where:
            raise SlideError(f"{path} is not a catalogue, so --where means nothing", "omit --where")
        found = objects_at(str(path))
        if found is None:
            raise SlideError(f"nothing is at {bare(str(path))}", "check the URL")
        objects, is_folder = found
        if not is_folder or _series(objects):
            return [SlideRecord("", str(path))]
        urls = [url for url in all_below(str(path)) if has_slide_name(RemotePath(url).name)]
        places = [str(RemotePath(url).parent) if url.lower().endswith(DICOM_SUFFIX) else url for url in urls]
        return [SlideRecord("", url) for url in dict.fromkeys(places)]

    def look_up(self, path: Path) -> tuple[int, str] | None:
        """Return the size and the version of a slide; of a DICOM series, those of all its objects together."""
        if (series := idc_series(str(path))) is not None:
            return 0, series
        found = objects_at(str(path))
        if found is None:
            return None
        objects, is_folder = found
        if not is_folder:
            return objects[0].size, objects[0].version
        if not (objects := _series(objects)):
            raise SlideError(f"{bare(str(path))} is a folder, not a slide", "give the URLs of the slides in it")
        return sum(one.size for one in objects), "\n".join(sorted(f"{one.url} {one.version}" for one in objects))

    def open(self, path: Path, slide_id: str, mpp: float | None) -> PyramidSlide:
        """Open a slide by ranges, or whole."""
        found = objects_at(str(path))
        if found is None:
            raise SlideError(f"nothing is at {bare(str(path))}", "check the URL")
        (one, *_), is_folder = found[0] or [StoredObject("", 0, "")], found[1]
        if is_folder or path.suffix.lower() == DICOM_SUFFIX:
            raise DeclinedError(f"{path} is DICOM")
        if path.suffix.lower() in (".mrxs", *HAMAMATSU_SUFFIXES):
            raise SlideError(f"{path.name} consists of several files", "copy them to a disk, and add the slide there")
        if not one.size:
            raise SlideError(f"{path.name} is empty (0 bytes)", "upload it again")
        cache = ObjectCache.standard()
        file = io.BufferedReader(CachedFile(cache.open(one)), 2**16)
        try:
            if file.peek(4).startswith(MAGIC):
                return RemoteTiff(cast("BinaryIO", file), slide_id, mpp, path.name)
        except DeclinedError:
            pass  # read whole
        except BaseException:
            file.close()
            raise
        file.close()
        cached = cache.open(one)
        try:
            return FetchedSlide(cached, slide_id, mpp)
        except BaseException:
            cached.close()
            raise


class FetchedSlide(PyramidSlide):
    """A slide opened as a file of the cache; the cache keeps the file until the slide is closed."""

    def __init__(self, cached: CachedObject, slide_id: str, mpp: float | None) -> None:
        self._cached = cached
        self._file = as_pyramid(open_slide(cached.whole(), slide_id, mpp))
        inner = self._file
        super().__init__(
            slide_id,
            inner.levels,
            inner.resolution,
            format=inner.format,
            objective=inner.objective,
            background=inner.background,
            addresses=inner.addresses,
        )

    def close(self) -> None:
        """Release the file; reading afterwards raises `SlideError`."""
        super().close()
        self._file.close()
        self._cached.close()

    def thumbnail(self, side: int) -> UInt8:
        """Return the whole slide, as the file's own reader makes it."""
        before, image = self._file.unreadable, self._file.thumbnail(side)
        self._count(unreadable=self._file.unreadable - before)
        return image

    def _read_level(self, level: int, xy: tuple[int, int], size: tuple[int, int]) -> Image.Image:
        return self._file._read_level(level, xy, size)


def _series(objects: Sequence[StoredObject]) -> list[StoredObject]:
    """Return the DICOM objects of a folder."""
    return [one for one in objects if one.url.lower().endswith(DICOM_SUFFIX)]
