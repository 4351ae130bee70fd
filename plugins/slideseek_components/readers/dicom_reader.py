"""DICOM whole-slide series through wsidicom: by ranges from an object store, frame by frame from DICOMweb, from a disk.

A series in an object store is a folder of `.dcm` objects. A series of a DICOMweb server has the URL
`dicomweb+https://SERVER/studies/UID/series/UID`; a token for the server is taken from SLIDESEEK_DICOMWEB_TOKEN.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from slideseek.errors import RegionError, SlideError, SlideseekError, message
from slideseek.interfaces import Remote
from slideseek.slides.file_formats import dicom_series
from slideseek.slides.remote_path import RemotePath
from slideseek.slides.slide_errors import DeclinedError, damaged
from slideseek.types import SlideRecord, UInt8
from slideseek_components.pixels.levels import Level, exact_downsample
from slideseek_components.pixels.resolution import objective_power, resolve
from slideseek_components.readers.inside_levels import InsideLevels
from slideseek_components.readers.object_cache import CachedFile, ObjectCache
from slideseek_components.readers.object_store import ATTEMPTS, PAUSE, known_scheme, objects_at

TOKEN_VARIABLE = "SLIDESEEK_DICOMWEB_TOKEN"
WEB_SCHEME = "dicomweb+"
_TIMEOUT = (5.0, 30.0)
_SERIES = re.compile(r"^(?P<server>.+?)(?:/studies/(?P<study>[\d.]+))?(?:/series/(?P<series>[\d.]+))?$")
_STUDY_UID, _SERIES_UID, _PATIENT_ID, _INSTANCE_UID = "0020000D", "0020000E", "00100020", "00080018"


@dataclass(frozen=True)
class DicomReader(Remote):
    """Read DICOM series that lie elsewhere, and those on disk that OpenSlide does not know."""

    code_revision: ClassVar[int] = 1
    rank: ClassVar[int] = 150

    def claims(self, path: Path, head: bytes) -> bool:
        """Claim URLs of DICOMweb, URLs that no reader before has opened, and files of DICOM."""
        if isinstance(path, RemotePath):
            return str(path).startswith(WEB_SCHEME) or known_scheme(str(path))
        return head[128:132] == b"DICM"

    def find(self, path: Path, where: Sequence[str]) -> list[SlideRecord]:
        """Return the series of slides of a DICOMweb server or of one of its studies."""
        at = _place(path)
        if at["series"]:
            return [SlideRecord(at["series"], str(path))]
        with _answers(path):
            client = _client(at["server"])
            asked = {"study_instance_uid": at["study"]} if at["study"] else {}
            only = {"search_filters": {"Modality": "SM"}, "fields": ["PatientID"]}
            found = client.search_for_series(**asked, **only, get_remaining=True)
        places = [(_value(one, _STUDY_UID) or at["study"], _value(one, _SERIES_UID)) for one in found]
        urls = [f"{WEB_SCHEME}{at['server']}/studies/{study}/series/{series}" for study, series in places]
        return [
            SlideRecord(series, url, patient=_value(one, _PATIENT_ID))
            for (_, series), url, one in zip(places, urls, found, strict=True)
        ]

    def look_up(self, path: Path) -> tuple[int, str] | None:
        """Return the instances of a series as its version: one never changes, and its size is not stated."""
        at = _place(path)
        with _answers(path):
            found = _client(at["server"]).search_for_instances(at["study"], at["series"])
        names = sorted(_value(one, _INSTANCE_UID) for one in found)
        return (0, "\n".join(names)) if names else None

    def open(self, path: Path, slide_id: str, mpp: float | None) -> DicomPyramid:
        """Open a series."""
        try:
            from wsidicom import WsiDicom
            from wsidicom.file import WsiDicomFileSource
            from wsidicom.file.io.wsidicom_io import WsiDicomReadIO
        except ImportError as error:
            cause = f"{path.name} is DICOM, and reading it needs wsidicom"
            raise SlideError(cause, "pip install 'slideseek[cloud]'") from error
        from upath import UPath

        files: list[CachedFile] = []
        try:
            if not isinstance(path, RemotePath):
                if dicom_series(path):
                    raise DeclinedError(f"{path.name} is read by OpenSlide")
                made = WsiDicom.open(path)
            elif str(path).startswith(WEB_SCHEME):
                from wsidicom import WsiDicomWebClient

                at = _place(path)
                made = WsiDicom.open_web(
                    WsiDicomWebClient(_client(at["server"], again=True)), at["study"], at["series"]
                )
            else:
                objects, _ = objects_at(str(path)) or ([], False)
                cache = ObjectCache.standard()
                files += [CachedFile(cache.open(one)) for one in objects if one.url.lower().endswith(".dcm")]
                streams = [io.BufferedReader(file, 2**16) for file in files]
                made = WsiDicom(WsiDicomFileSource(WsiDicomReadIO(one, UPath("memory://x")) for one in streams))
            return DicomPyramid(made, files, slide_id, mpp, path.name)
        except BaseException as error:
            for file in files:
                file.close()
            if isinstance(error, SlideseekError) or not isinstance(error, Exception):
                raise
            raise damaged(path, error) from error


class DicomPyramid(InsideLevels):
    """The levels of an open series. files: closed with it."""

    def __init__(self, wsi: Any, files: Sequence[CachedFile], slide_id: str, mpp: float | None, name: str) -> None:
        self._wsi = wsi
        self._files = files
        pages = sorted(wsi.pyramid, key=lambda level: -level.size.width)
        self._numbers = [page.level for page in pages]
        base = Level(pages[0].size.width, pages[0].size.height, 1.0)
        properties = _properties(pages[0])
        super().__init__(
            slide_id,
            [
                Level(page.size.width, page.size.height, _downsample(base, page.size.width, page.size.height))
                for page in pages
            ],
            resolve(properties, mpp, name),
            format="dicom",
            objective=objective_power(properties),
        )

    def close(self) -> None:
        """Release the files; reading afterwards raises `SlideError`."""
        super().close()
        self._wsi.close()
        for file in self._files:
            file.close()

    def _read_inside(self, level: int, xy: tuple[int, int], size: tuple[int, int]) -> UInt8:
        try:
            region: UInt8 = self._wsi.read_region(xy, self._numbers[level], size, as_array=True)
        except SlideError:
            raise
        except Exception as error:
            raise RegionError(
                f"a region of slide {self.id!r} at {xy} (level {level}) cannot be decoded ({message(error)})",
                "upload the series again if many regions fail",
            ) from error
        return region[..., :3]


def _downsample(base: Level, width: int, height: int) -> float:
    return exact_downsample(base, width, height, (base.width / width + base.height / height) / 2)


def _properties(level: Any) -> dict[str, str]:
    """Return the resolution and the objective of the base level, under OpenSlide's names."""
    found: dict[str, str] = {}
    if level.pixel_spacing is not None:
        found |= {"openslide.mpp-x": str(level.mpp.width), "openslide.mpp-y": str(level.mpp.height)}
    for path in getattr(level.datasets[0].as_dataset(), "OpticalPathSequence", ()):
        power = getattr(path, "ObjectiveLensPower", None)
        if power:
            found["openslide.objective-power"] = str(power)
    return found


def _place(path: Path) -> dict[str, str]:
    found = _SERIES.match(str(path).removeprefix(WEB_SCHEME))
    assert found is not None  # the pattern matches any text
    return {name: value or "" for name, value in found.groupdict().items()}


def _client(server: str, again: bool = False) -> Any:
    """Return a client of a server. again: make requests again that fail; a look-up must not take long."""
    from dicomweb_client.api import DICOMwebClient
    from requests import Session
    from requests.adapters import HTTPAdapter

    class Limited(HTTPAdapter):
        """Requests that end: without a limit, a silent server would hold a build forever."""

        def send(self, request: Any, **options: Any) -> Any:  # type: ignore[override]
            return super().send(request, **{**options, "timeout": options.get("timeout") or _TIMEOUT})

    session = Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, Limited())
    if token := os.environ.get(TOKEN_VARIABLE):
        session.headers["Authorization"] = f"Bearer {token}"
    client = DICOMwebClient(server, session=session)
    client.set_http_retry_params(again, max_attempts=ATTEMPTS, wait_exponential_multiplier=round(1000 * PAUSE))
    return client


@contextmanager
def _answers(path: Path) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise SlideError(f"{path} needs wsidicom", "pip install 'slideseek[cloud]'") from error
    except OSError as error:  # what requests raises
        cause = f"{path} cannot be reached ({message(error)})"
        raise SlideError(cause, f"check the URL, and the token in {TOKEN_VARIABLE}") from error


def _value(answer: dict[str, Any], tag: str) -> str:
    values = answer.get(tag, {}).get("Value", [""])
    return str(values[0]) if values else ""
