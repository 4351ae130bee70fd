"""Files made to run code, to fill the memory or to take forever: none is run, each is refused with a cause."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import resource
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from reliability.hostile_slides import CONFIG, png, tissue
from reliability.row import Effort, Figure, Row
from reliability.trial import in_child
from slideseek_components.readers import slide_process

SECONDS, MEBIBYTES = 2.0, 512
"""Most processor time and memory that the refusal of one file may take."""

Words = list[Any]


class Runs:
    """Pickles to a call of a function: whoever unpickles it runs it. `canary` is the file that the call writes."""

    def __init__(self, function: Callable[..., Any], *given: Any) -> None:
        self._call = function, given

    def __reduce__(self) -> Any:
        return self._call


@dataclass(frozen=True)
class Place:
    """Where a hostile file is made. folder: its own. archive: a copy that it may be used with."""

    folder: Path
    archive: Path

    @property
    def canary(self) -> Path:
        """The file that exists if something was run."""
        return self.folder / "canary"

    def features(self, name: str, data: bytes) -> Words:
        """Write a feature file; return the command that imports it."""
        (self.folder / "in").mkdir(exist_ok=True)
        (self.folder / "in" / name).write_bytes(data)
        return ["import", self.folder / "in", "-a", self.archive, "--set", "new", "--patch-size", 64]

    def hdf5(self, write: Callable[[h5py.File], object]) -> Words:
        """Write an HDF5 file; return the command that imports it."""
        words = self.features("s.h5", b"")
        with h5py.File(self.folder / "in" / "s.h5", "w") as file:
            write(file)
        return words

    def configuration(self, text: str | bytes) -> Words:
        """Write a configuration; return the command that makes an archive with it."""
        path = self.folder / "hostile.toml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return ["init", self.folder / "new", "--config", path]

    def manifest(self, text: str | bytes, *more: Any) -> Words:
        """Write a manifest; return the command that reads it."""
        path = self.folder / "manifest.csv"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return ["add", "--manifest", path, "-a", self.archive, *more]

    def contours(self, text: str | bytes) -> Words:
        """Write GeoJSON; return the command that searches with an annotation of it."""
        path = self.folder / "regions.geojson"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return ["search", "a", "--region", path, "-a", self.archive]

    def image(self, name: str, data: bytes) -> Words:
        """Write an image; return the command that looks at it."""
        (self.folder / name).write_bytes(data)
        return ["inspect", self.folder / name, "--mpp", "0.5"]


def _npy(header: str, body: bytes = b"") -> bytes:
    text = header.encode("latin1")
    text += b" " * (64 - (len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x02\x00\x00\x00"[:8] + len(text).to_bytes(4, "little") + text + body


def _zip(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(name.replace("__", "/").replace("_DOT_", "."), data)
    return buffer.getvalue()


def _torch(value: Any) -> bytes:
    import torch

    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def _saved_pickle(place: Place, function: Callable[..., Any], *given: Any) -> bytes:
    return _zip(archive__data_DOT_pkl=pickle.dumps(Runs(function, *given), 2), archive__version=b"3\n")


def _array(value: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, value, allow_pickle=True)
    return buffer.getvalue()


def _touch(place: Place) -> str:
    return f"open({str(place.canary)!r}, 'w').close()"


def _features(file: h5py.File, rows: int = 4, **more: Any) -> None:
    file["features"] = np.ones((rows, 8), np.float32)
    file["coords"] = np.zeros((rows, 2), np.int64)


def _ring(points: int) -> str:
    angle = np.linspace(0, 2 * np.pi, points)
    ring = np.column_stack([500 + 400 * np.cos(angle * 7919), 500 + 400 * np.sin(angle * 104729)]).round(3)
    return json.dumps({"type": "Polygon", "coordinates": [[*ring.tolist(), ring[0].tolist()]]})


def _external(file: h5py.File, place: Place) -> None:
    secret = place.folder / "secret.h5"
    with h5py.File(secret, "w") as other:
        _features(other)
    file["features"] = h5py.ExternalLink(str(secret), "features")
    file["coords"] = np.zeros((4, 2), np.int64)


def _stored_outside(file: h5py.File, place: Place) -> None:
    outside = place.folder / "outside.raw"
    outside.write_bytes(bytes(4 * 8 * 4))
    file.create_dataset("features", (4, 8), np.float32, external=[(str(outside), 0, 4 * 8 * 4)])
    file["coords"] = np.zeros((4, 2), np.int64)


def _virtual(file: h5py.File, place: Place) -> None:
    with h5py.File(place.folder / "secret.h5", "w") as other:
        _features(other)
    layout = h5py.VirtualLayout((4, 8), np.float32)
    layout[:] = h5py.VirtualSource(str(place.folder / "secret.h5"), "features", (4, 8))
    file.create_virtual_dataset("features", layout)
    file["coords"] = np.zeros((4, 2), np.int64)


def _huge(file: h5py.File, shape: tuple[int, ...]) -> None:
    file.create_dataset("features", shape, np.float32, chunks=(1000, *shape[1:]), compression="gzip")
    file["coords"] = np.zeros((4, 2), np.int64)


def _bomb(file: h5py.File) -> None:
    file.create_dataset("features", (2**20, 512), np.float32, chunks=(2**14, 512), compression="gzip", fillvalue=1)
    file.create_dataset("coords", (2**20, 2), np.int64, chunks=True, compression="gzip")


def _opaque(file: h5py.File, place: Place) -> None:
    _features(file)
    file["features"].attrs["patch_size"] = np.void(pickle.dumps(Runs(exec, _touch(place))))
    file["coords"].attrs["patch_size_level0"] = np.void(pickle.dumps(Runs(exec, _touch(place))))
    del file["features"]
    file["features"] = np.array([pickle.dumps(Runs(exec, _touch(place)))] * 4, dtype=np.void)


def _objects(file: h5py.File, place: Place) -> None:
    text = pickle.dumps(Runs(exec, _touch(place)), 0).decode("latin1")
    file.create_dataset("features", (4,), h5py.string_dtype())[:] = [text.replace("\0", "")] * 4
    file["coords"] = np.zeros((4, 2), np.int64)


def _circle(file: h5py.File) -> None:
    file["features"] = h5py.SoftLink("/coords")
    file["coords"] = h5py.SoftLink("/features")


def _values(file: h5py.File, features: float, coords: float) -> None:
    file["features"] = np.full((4, 8), features, np.float32)
    file["coords"] = np.full((4, 2), coords)


def _sparse(path: Path, head: bytes, size: int) -> None:
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)


def _large(place: Place, words: Words, path: Path, head: bytes, size: int) -> Words:
    _sparse(path, head, size)
    return words


def _plugin(place: Place, entry: str, metadata: str = "Name: hostile\nVersion: 1\n") -> Words:
    info = place.folder / "site" / "hostile-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\n{metadata}")
    (info / "entry_points.txt").write_text(entry)
    return ["plugins", "show", "hostile"]


DEEP = 200_000
HEAD = "slide_id,path,case_id,mpp\n"
ARRAY = "{{'descr': '<f4', 'fortran_order': False, 'shape': {}, }}".format
FILES: dict[str, Callable[[Place], Words]] = {
    # Pickles and tensors
    "pt: plain pickle that runs os.system": lambda p: p.features(
        "s.pt", pickle.dumps(Runs(os.system, f"touch {p.canary}"))
    ),
    "pt: pickle that runs exec": lambda p: p.features("s.pt", pickle.dumps(Runs(exec, _touch(p)), 2)),
    "pt: pickle that runs eval, protocol 0": lambda p: p.features("s.pt", pickle.dumps(Runs(eval, _touch(p)), 0)),
    "pt: torch file that runs exec": lambda p: p.features("s.pt", _saved_pickle(p, exec, _touch(p))),
    "pt: torch file that runs os.system": lambda p: p.features(
        "s.pt", _saved_pickle(p, os.system, f"touch {p.canary}")
    ),
    "pt: torch file with an object": lambda p: p.features("s.pt", _torch({"features": Runs(exec, _touch(p))})),
    "pt: torch file with nested lists": lambda p: p.features("s.pt", _torch([[[Runs(exec, _touch(p))]]])),
    "pt: a view of 10^12 values over one": lambda p: p.features("s.pt", _view(10**6, 10**6)),
    "pt: not a number": lambda p: p.features("s.pt", _torch(_tensor(np.full((4, 8), np.nan, np.float32)))),
    "pt: text": lambda p: p.features("s.pt", b"cos\nsystem\n(S'touch " + str(p.canary).encode() + b"'\ntR."),
    # NumPy
    "npy: objects": lambda p: p.features("s.npy", _array(np.array([Runs(exec, _touch(p))], object))),
    "npy: shape of 10^18": lambda p: p.features("s.npy", _npy(ARRAY("(1000000000, 1000000000)"))),
    "npy: header that is code": lambda p: p.features("s.npy", _npy(f"__import__('os').system('touch {p.canary}')")),
    "npy: header of great depth": lambda p: p.features("s.npy", _npy("(" * 5000 + ")" * 5000)),
    "npy: header of 100 MB": lambda p: p.features(
        "s.npy", _npy("{'descr': '<f4'," + " " * 10**8 + "'fortran_order': False, 'shape': (4, 8), }")
    ),
    "npy: negative shape": lambda p: p.features("s.npy", _npy(ARRAY("(-4, 8)"), bytes(128))),
    "npy: fewer bytes than stated": lambda p: p.features("s.npy", _npy(ARRAY("(4, 8)"), bytes(7))),
    "npy: objects within a structure": lambda p: p.features(
        "s.npy",
        _npy("{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (4,), }", pickle.dumps(Runs(exec, _touch(p)))),
    ),
    "npz: objects": lambda p: p.features(
        "s.npz", _zip(features_DOT_npy=_array(np.array([Runs(exec, _touch(p))], object)))
    ),
    "npz: 1 GB of zeros in 1 MB": lambda p: p.features("s.npz", _zipped_zeros()),
    "npz: names outside the folder": lambda p: p.features(
        "s.npz", _zip(**{"..__..__features_DOT_npy": _array(np.ones((4, 8)))})
    ),
    # HDF5
    "h5: pickles as opaque values": lambda p: p.hdf5(lambda f: _opaque(f, p)),
    "h5: pickles as text": lambda p: p.hdf5(lambda f: _objects(f, p)),
    "h5: link to another file": lambda p: p.hdf5(lambda f: _external(f, p)),
    "h5: values in another file": lambda p: p.hdf5(lambda f: _stored_outside(f, p)),
    "h5: a virtual dataset of another file": lambda p: p.hdf5(lambda f: _virtual(f, p)),
    "h5: links in a circle": lambda p: p.hdf5(_circle),
    "h5: shape of 10^15": lambda p: p.hdf5(lambda f: _huge(f, (10**12, 1000))),
    "h5: 2 GB that are 10 kB in the file": lambda p: p.hdf5(_bomb),
    "h5: coordinates that are not numbers": lambda p: p.hdf5(lambda f: _values(f, 1.0, float("nan"))),
    "h5: infinite features": lambda p: p.hdf5(lambda f: _values(f, float("inf"), 0.0)),
    "h5: coordinates beyond any slide": lambda p: p.hdf5(lambda f: _values(f, 1.0, 1e300)),
    # Images
    "png: 3.6 gigapixels": lambda p: p.image("s.png", png(60_000, 60_000, bytes(10**6))),
    "png: 160 megapixels of one bit in 21 kB": lambda p: p.image("s.png", png(12_650, 12_650, bytes(12_650 * 1583), 1)),
    "png: text of 100 MB in 100 kB": lambda p: p.image("s.png", _png_text()),
    "tif: 400 gigapixels": lambda p: p.image("s.tif", _tiff_header(632_000)),
    "svg with a script": lambda p: p.image(
        "s.svs", b"<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>"
    ),
    "eps with a program": lambda p: p.image(
        "s.tif", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(" + str(p.canary).encode() + b") (w) file\n"
    ),
    # GeoJSON
    "geojson: depth 200,000": lambda p: p.contours("[" * DEEP + "]" * DEEP),
    "geojson: coordinates of great depth": lambda p: p.contours(
        '{"type": "Polygon", "coordinates": ' + "[" * 900 + "1" + "]" * 900 + "}"
    ),
    "geojson: NaN coordinates": lambda p: p.contours(
        '{"type": "Polygon", "coordinates": [[[0,0],[NaN,9],[9,9],[0,0]]]}'
    ),
    "geojson: infinite coordinates": lambda p: p.contours(
        '{"type": "Polygon", "coordinates": [[[0,0],[1e400,9],[9,9],[0,0]]]}'
    ),
    "geojson: 10^6 points": lambda p: p.contours(_ring(10**6)),
    "geojson: 100 MB": lambda p: _large(p, p.contours("x"), p.folder / "regions.geojson", b"[", 10**8),
    "geojson: text for numbers": lambda p: p.contours(
        '{"type": "Polygon", "coordinates": [[["a","b"],["c","d"],["e","f"],["a","b"]]]}'
    ),
    # Configuration
    "toml: depth 200,000": lambda p: p.configuration("x = " + "[" * DEEP + "]" * DEEP),
    "toml: a dotted key of 400 kB": lambda p: p.configuration("a" + ".a" * 200_000 + " = 1"),
    "toml: 1e400": lambda p: p.configuration(CONFIG.replace("size = 64", "size = 1e400")),
    "toml: nan": lambda p: p.configuration(CONFIG.replace("mpp = 1.0", "mpp = nan")),
    "toml: NUL": lambda p: p.configuration(CONFIG.replace("parts", "pa\0rts")),
    "toml: a number of a million digits": lambda p: p.configuration(CONFIG.replace("64", "6" * 10**6)),
    "toml: 1 GB": lambda p: _large(p, p.configuration(""), p.folder / "hostile.toml", b"x = 1\n", 10**9),
    "toml: a component outside the plugins": lambda p: p.configuration(CONFIG.replace('"mean"', '"os:system"')),
    # Manifests
    "manifest: NUL": lambda p: p.manifest(f"{HEAD}a\0b,x.png,p,1.0\n"),
    "manifest: a line of 1 GB": lambda p: _large(
        p, p.manifest(""), p.folder / "manifest.csv", HEAD.encode() + b"x", 10**9
    ),
    "manifest: a cell that never ends": lambda p: p.manifest(HEAD + '"' + "x" * 10**7),
    "manifest: paths outside": lambda p: p.manifest(f"{HEAD}z,../../../../etc/passwd,p,1.0\n"),
    "manifest: a formula for a path": lambda p: p.manifest(f'{HEAD}a,"=HYPERLINK(""x"")",p,1.0\n'),
    # Plugins
    "plugin: metadata with a module outside": lambda p: _plugin(p, "[slideseek]\nhostile = ../../evil\n"),
    "plugin: metadata that is not a table": lambda p: _plugin(p, "[slideseek\nhostile = = \x01\n"),
}


def _tensor(array: Any) -> Any:
    import torch

    return torch.from_numpy(array)


def _view(rows: int, columns: int) -> bytes:
    import torch

    return _torch(torch.zeros(1).expand(rows, columns))


def _zipped_zeros() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file, file.open("features.npy", "w") as member:
        member.write(_npy(ARRAY("(524288, 512)")))
        for _ in range(1024):
            member.write(bytes(2**20))
    return buffer.getvalue()


def _png_text() -> bytes:
    import struct
    import zlib

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    sound = png(64, 64, bytes(65 * 64))
    return sound[:33] + part(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(10**8), 9)) + sound[33:]


def _tiff_header(side: int) -> bytes:
    import struct

    tags = [(256, 4, 1, side), (257, 4, 1, side), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (277, 3, 1, 1)]
    tags += [(273, 4, 1, 8), (278, 4, 1, side), (279, 4, 1, 100)]
    body = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    return struct.pack("<2sHIH", b"II", 42, 8, len(tags)) + body + struct.pack("<I", 0) + bytes(200)


def make_archive(folder: Path) -> Path:
    """Make a small archive with the slides a and b, built."""
    from PIL import Image

    (folder / "slides").mkdir(parents=True)
    for number, name in enumerate("ab"):
        Image.fromarray(np.roll(tissue(512), number * 50, 0)).save(
            folder / "slides" / f"{name}.png", dpi=(50_800, 50_800)
        )
    (folder / "engines.toml").write_text(CONFIG)
    archive = folder / "archive"
    for words in (
        ["init", archive, "--config", folder / "engines.toml"],
        ["add", folder / "slides", "-a", archive],
        ["build", "-a", archive],
    ):
        code, text = call(words)
        if code:
            raise RuntimeError(text)
    return archive


def call(words: Words) -> tuple[int, str]:
    """Run the command line in this process; return its exit code and all it printed."""
    from slideseek.cli import main

    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        try:
            main([str(word) for word in words])
            code = 0
        except SystemExit as done:
            code = done.code if isinstance(done.code, int) else 1 if done.code else 0
    return code, text.getvalue()


def _measured(words: Words, site: Path) -> list[Any]:
    """Run a command in this (forked) process: exit code, text, processor seconds, and MiB that it added."""
    import sys

    if site.exists():
        sys.path.insert(0, str(site))
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak so far is the parent's
    before = _resident("VmRSS")
    code, text = call(words)
    slide_process._stop()  # so that what it has used counts
    used = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    added = max(_resident("VmHWM") - before, used[1].ru_maxrss)
    return [code, text, sum(one.ru_utime + one.ru_stime for one in used), added // 1024]


def _resident(name: str) -> int:
    """Return a figure of this process's memory, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def run(effort: Effort) -> Iterator[Figure]:
    """Give every file to the command that reads such files."""
    import torch  # noqa: F401 - imported here once, for all forks

    import slideseek_apps.interchange.import_features  # noqa: F401
    from slideseek.searching import searcher  # noqa: F401

    archive = make_archive(effort.work / "base")
    executed, unclear, slow, large = [], [], [], []
    longest, most = 0.0, 0
    for number, (name, make) in enumerate(FILES.items()):
        folder = effort.work / str(number)
        folder.mkdir()
        place = Place(folder, archive)
        words = make(place)
        done = in_child(partial(_measured, words, folder / "site"), 60)
        if place.canary.exists():
            executed.append(name)
        if done.end != "answered":
            unclear.append(f"{name}: {done.end} {done.text[-300:]}")
            continue
        code, text, seconds, added = done.value
        last = text.strip().splitlines()[-1] if text.strip() else ""
        if code == 0 or "Traceback" in text or len(last) < 20 or "bug in slideseek" in text:
            unclear.append(f"{name}: exit {code}: {text[-300:]}")
        slow += [f"{name}: {seconds:.1f} s"] if seconds > SECONDS else []
        large += [f"{name}: {added} MiB"] if added > MEBIBYTES else []
        longest, most = max(longest, seconds), max(most, added)
        for file in folder.rglob("*"):
            if file.is_file() and file.stat().st_size > 10**6:
                file.unlink()
    yield Figure(
        "hostile files, each given to the command that reads such files",
        len(FILES),
        {
            "code run": len(executed),
            "refused with a cause": len(FILES) - len(unclear),
            "most processor time, s": longest,
            "most memory added, MiB": most,
        },
        not (executed or unclear or slow or large),
        examples=(*(f"RUN {name}" for name in executed), *unclear, *slow, *large),
    )


ROW = Row(
    "hostile_files",
    "Hostile files",
    f"60 files: no code run, all refused with a cause, each within {SECONDS:g} s and {MEBIBYTES} MiB",
    run,
)
