"""Servers on loopback for tests of slides elsewhere, and DICOM series to serve."""

import contextlib
import http.server
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image


@contextlib.contextmanager
def s3_server() -> Iterator[str]:
    """Serve S3 on loopback; yield its address."""
    import logging

    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield f"http://127.0.0.1:{server.get_host_and_port()[1]}"
    finally:
        server.stop()


class Ranges(http.server.BaseHTTPRequestHandler):
    """Serve byte ranges of `files`. cut: how many answers are cut off half-way. asked: (method, range) of requests."""

    protocol_version = "HTTP/1.1"
    files: ClassVar[dict[str, bytes]] = {}
    cut: ClassVar[int] = 0
    asked: ClassVar[list[tuple[str, str]]] = []

    def do_HEAD(self) -> None:
        self._answer(False)

    def do_GET(self) -> None:
        self._answer(True)

    def _answer(self, body: bool) -> None:
        asked = self.headers.get("Range", "")
        type(self).asked.append((self.command, asked))
        data = self.files.get(self.path)
        if data is None:
            self.send_error(404)
            return
        etag = f'"{hash(data):x}"'
        if self.headers.get("If-Match", etag) != etag:
            self.send_error(412)
            return
        first, last = 0, len(data) - 1
        if asked:
            low, _, high = asked.removeprefix("bytes=").partition("-")
            first, last = int(low), min(int(high or last), last)
        part = data[first : last + 1]
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Accept-Ranges", "bytes")
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.send_header("ETag", etag)
        self.end_headers()
        if not body:
            return
        if type(self).cut and asked:
            type(self).cut -= 1
            self.wfile.write(part[: len(part) // 2])
            self.wfile.flush()
            self.close_connection = True
            self.connection.close()
            return
        self.wfile.write(part)

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - the name of the base class


@contextlib.contextmanager
def web_server(kind: type[http.server.BaseHTTPRequestHandler] = Ranges, **settings: Any) -> Iterator[tuple[str, Any]]:
    """Serve on loopback; yield the address and the class whose attributes say what is served."""
    handler = type("Handler", (kind,), settings or {"files": {}, "cut": 0, "asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", handler
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def dicom_levels(image: np.ndarray, mpp: float, patient: str, levels: int = 2, tile: int = 128) -> list[bytes]:
    """Return the instances of a DICOM series, one per level, each half as large as the one before.

    image: uint8 (h, w, 3). mpp: µm per pixel of the first level.
    """
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.encaps import encapsulate
    from pydicom.sequence import Sequence
    from pydicom.uid import JPEGBaseline8Bit, VLWholeSlideMicroscopyImageStorage, generate_uid

    def of(**values: Any) -> Dataset:
        made = Dataset()
        for name, value in values.items():
            setattr(made, name, Sequence(value) if name.endswith("Sequence") else value)
        return made

    same = {name: generate_uid() for name in ("StudyInstanceUID", "SeriesInstanceUID", "FrameOfReferenceUID")}
    organisation, specimen = generate_uid(), generate_uid()
    found = []
    for level in range(levels):
        scale = 2**level
        height, width = image.shape[0] // scale, image.shape[1] // scale
        shown = np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BOX))
        padded = np.full((-(-height // tile) * tile, -(-width // tile) * tile, 3), 255, np.uint8)
        padded[:height, :width] = shown
        frames = []
        for top in range(0, padded.shape[0], tile):
            for left in range(0, padded.shape[1], tile):
                buffer = io.BytesIO()
                Image.fromarray(padded[top : top + tile, left : left + tile]).save(buffer, "JPEG", quality=90)
                frames.append(buffer.getvalue())
        kind = ["ORIGINAL", "PRIMARY", "VOLUME", "NONE" if level == 0 else "RESAMPLED"]
        measures = of(PixelSpacing=[mpp * scale / 1000] * 2, SliceThickness=0.001, SpacingBetweenSlices=0.001)
        code = of(CodeValue="414298005", CodingSchemeDesignator="SCT", CodeMeaning="Full Spectrum")
        light = of(CodeValue="111744", CodingSchemeDesignator="DCM", CodeMeaning="Brightfield illumination")
        one = of(
            SOPClassUID=VLWholeSlideMicroscopyImageStorage,
            SOPInstanceUID=generate_uid(),
            **same,
            ImageType=kind,
            Modality="SM",
            Manufacturer="slideseek",
            ManufacturerModelName="test",
            DeviceSerialNumber="1",
            SoftwareVersions="1",
            StudyDate="20260101",
            StudyTime="000000",
            ContentDate="20260101",
            ContentTime="000000",
            AcquisitionDateTime="20260101000000",
            AccessionNumber="",
            StudyID="1",
            SeriesNumber=1,
            InstanceNumber=level + 1,
            PatientID=patient,
            PatientName=patient,
            PatientBirthDate="",
            PatientSex="",
            ReferringPhysicianName="",
            PositionReferenceIndicator="SLIDE_CORNER",
            VolumetricProperties="VOLUME",
            DimensionOrganizationType="TILED_FULL",
            DimensionOrganizationSequence=[of(DimensionOrganizationUID=organisation)],
            SamplesPerPixel=3,
            PhotometricInterpretation="YBR_FULL_422",
            PlanarConfiguration=0,
            NumberOfFrames=len(frames),
            Rows=tile,
            Columns=tile,
            BitsAllocated=8,
            BitsStored=8,
            HighBit=7,
            PixelRepresentation=0,
            BurnedInAnnotation="NO",
            LossyImageCompression="01",
            LossyImageCompressionMethod="ISO_10918_1",
            LossyImageCompressionRatio=10.0,
            ContainerIdentifier="c",
            IssuerOfTheContainerIdentifierSequence=[],
            ContainerTypeCodeSequence=[code],
            AcquisitionContextSequence=[],
            SpecimenDescriptionSequence=[
                of(
                    SpecimenIdentifier="s",
                    SpecimenUID=specimen,
                    IssuerOfTheSpecimenIdentifierSequence=[],
                    SpecimenPreparationSequence=[],
                )
            ],
            TotalPixelMatrixColumns=width,
            TotalPixelMatrixRows=height,
            TotalPixelMatrixFocalPlanes=1,
            TotalPixelMatrixOriginSequence=[of(XOffsetInSlideCoordinateSystem=0.0, YOffsetInSlideCoordinateSystem=0.0)],
            SpecimenLabelInImage="NO",
            FocusMethod="AUTO",
            ExtendedDepthOfField="NO",
            ImageOrientationSlide=[0.0, -1.0, 0.0, -1.0, 0.0, 0.0],
            ImagedVolumeWidth=width * mpp * scale / 1000,
            ImagedVolumeHeight=height * mpp * scale / 1000,
            ImagedVolumeDepth=0.001,
            NumberOfOpticalPaths=1,
            OpticalPathSequence=[
                of(
                    OpticalPathIdentifier="0",
                    ObjectiveLensPower=20.0,
                    IlluminationTypeCodeSequence=[light],
                    IlluminationColorCodeSequence=[code],
                )
            ],
            SharedFunctionalGroupsSequence=[
                of(
                    PixelMeasuresSequence=[measures],
                    WholeSlideMicroscopyImageFrameTypeSequence=[of(FrameType=kind)],
                    OpticalPathIdentificationSequence=[of(OpticalPathIdentifier="0")],
                )
            ],
        )
        one.PixelData = encapsulate(frames)
        one["PixelData"].VR = "OB"
        one["PixelData"].is_undefined_length = True
        one.file_meta = FileMetaDataset()
        one.file_meta.MediaStorageSOPClassUID = one.SOPClassUID
        one.file_meta.MediaStorageSOPInstanceUID = one.SOPInstanceUID
        one.file_meta.TransferSyntaxUID = JPEGBaseline8Bit
        buffer = io.BytesIO()
        one.save_as(buffer, enforce_file_format=True, little_endian=True, implicit_vr=False)
        found.append(buffer.getvalue())
    return found


def write_series(folder: Path, instances: list[bytes]) -> Path:
    """Write a series to a folder; return its first file."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, one in enumerate(instances):
        (folder / f"{number}.dcm").write_bytes(one)
    return folder / "0.dcm"


class DicomWeb(http.server.BaseHTTPRequestHandler):
    """Serve the series in `instances` (pydicom datasets) by QIDO and WADO. token: that requests must have."""

    protocol_version = "HTTP/1.1"
    instances: ClassVar[list[Any]] = []
    token: ClassVar[str] = ""

    def do_GET(self) -> None:
        from urllib.parse import parse_qs, urlsplit

        from pydicom.dataset import Dataset
        from pydicom.encaps import generate_frames

        if self.token and self.headers.get("Authorization") != f"Bearer {self.token}":
            self.send_error(401)
            return
        parts = urlsplit(self.path)
        place = parts.path.strip("/").split("/")
        named = dict(zip(place[::2], place[1::2]))
        found = [
            one
            for one in self.instances
            if named.get("studies", one.StudyInstanceUID) == one.StudyInstanceUID
            and named.get("series", one.SeriesInstanceUID) == one.SeriesInstanceUID
            and named.get("instances", one.SOPInstanceUID) == one.SOPInstanceUID
        ]
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if asked.get("Modality", asked.get("00080060", "SM")) != "SM" or int(asked.get("offset", 0)) > 0:
            found = []
        if "frames" in named:
            frames = list(generate_frames(found[0].PixelData, number_of_frames=found[0].NumberOfFrames))
            body = b""
            for number in named["frames"].split(","):
                body += b"--edge\r\nContent-Type: image/jpeg\r\n\r\n" + frames[int(number) - 1] + b"\r\n"
            self._send(body + b"--edge--\r\n", 'multipart/related; type="image/jpeg"; boundary=edge')
            return
        if place[-1] == "series":
            found = list({one.SeriesInstanceUID: one for one in found}.values())
        whole = place[-1] == "metadata"
        kept = ("StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID", "SOPClassUID", "PatientID", "Modality")
        answers = []
        for one in found:
            shown = Dataset()
            for element in one:
                if element.keyword != "PixelData" and (whole or element.keyword in kept):
                    shown[element.tag] = element
            if whole:
                shown.add_new(0x00083002, "UI", one.file_meta.TransferSyntaxUID)
            answers.append(shown.to_json_dict())
        self._send(json.dumps(answers).encode(), "application/dicom+json")

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - the name of the base class
