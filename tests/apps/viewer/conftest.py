"""A small archive of painted slides, served by a real server on this machine."""

import subprocess

import h5py
import httpx
import numpy as np
import pytest

from slideseek.cli import main
from slideseek.config import CONFIG_NAME
from slideseek_apps.demo.histology import write_demo
from slideseek_apps.viewer.server import serving

CONFIG = """
[[engine]]
name       = "pairs"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "yottixel" }
index      = { use = "hamming" }

[[engine]]
name       = "parts"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "mean" }
index      = { use = "cosine" }

[[engine]]
name       = "two"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "mean" }
index      = { use = "cosine" }
rerank     = { use = "set-cosine", depth = 3 }
"""

BROKEN = """
[[engine]]
name       = "unready"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "no-such-featurizer" }
encoder    = { use = "mean" }
index      = { use = "cosine" }
"""


@pytest.fixture(scope="session")
def painted_archive(tmp_path_factory):
    """Archive of 8 painted slides of 1024 px: 2 sites, 4 diagnoses, 8 patients; three engines built, one broken."""
    base = tmp_path_factory.mktemp("viewer")
    root, config = base / "archive of slides", base / "engines.toml"
    config.write_text(CONFIG)
    manifest = write_demo(root / "slides", patients=2, side=1024)
    for command in (
        ("init", root, "--config", config),
        ("add", manifest.parent, "--manifest", manifest, "-a", root),
        ("build", "-a", root),
    ):
        with pytest.raises(SystemExit) as done:
            main([str(part) for part in command])
        assert done.value.code == 0
    with (root / CONFIG_NAME).open("a") as file:
        file.write(BROKEN)
    return root


IMPORTED = """
[[engine]]
name       = "sets"
selector   = { use = "imported", set = "uni_v1" }
featurizer = { use = "imported", set = "uni_v1", width = 16 }
encoder    = { use = "yottixel" }
index      = { use = "hamming" }

[[engine]]
name       = "means"
selector   = { use = "imported", set = "uni_v1" }
featurizer = { use = "imported", set = "uni_v1", width = 16 }
encoder    = { use = "mean" }
index      = { use = "cosine" }
"""
DIAGNOSES = ("adenocarcinoma", "squamous, keratinising", "adenoma", "normal")


def imported_features(base):
    """Make an archive of 24 slides whose features were imported, without a slide file: 4 diagnoses, ages from 40."""
    job, root = base / "job" / "20x_256px_0px_overlap" / "features_uni_v1", base / "imported"
    job.mkdir(parents=True)
    rng = np.random.default_rng(0)
    kinds = 3 * rng.normal(size=(4, 16))
    rows = ["slide_id,patient,site,diagnosis,age,grade"]
    for number in range(24):
        side = 5 + number % 4
        grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)
        xy = 3000 + 512 * grid[((grid - side / 2) ** 2).sum(axis=1) < side**2 / 3]
        with h5py.File(job / f"S{number:03d}.h5", "w") as file:
            file["features"] = (kinds[number % 4] + rng.normal(size=(len(xy), 16))).astype(np.float32)
            coords = file.create_dataset("coords", data=xy.astype(np.int64))
            coords.attrs.update(
                {"patch_size": 256, "patch_size_level0": 512, "level0_magnification": 40, "target_magnification": 20}
            )
        site, label = ("lung", "lung", "colon", "colon")[number % 4], DIAGNOSES[number % 4]
        rows.append(f'S{number:03d},P{number // 2:02d},{site},"{label}",{40 + number},{number % 3 + 1}')
    (base / "manifest.csv").write_text("\n".join(rows) + "\n")
    (base / "engines.toml").write_text(IMPORTED)
    for command in (
        ("init", root, "--config", base / "engines.toml"),
        ("import", base / "job", "-a", root, "--manifest", base / "manifest.csv"),
        ("build", "-a", root),
    ):
        with pytest.raises(SystemExit) as done:
            main([str(part) for part in command])
        assert done.value.code == 0
    return root


@pytest.fixture(scope="session")
def imported_viewer(tmp_path_factory):
    """A server of an archive of imported features."""
    with serving(imported_features(tmp_path_factory.mktemp("imported"))) as running:
        yield running


@pytest.fixture(scope="session")
def copy_of(painted_archive):
    """Copy the archive by another process.

    Who closes a file of SQLite in the process of the server takes its locks away, and the next process that opens the
    catalogue would clear its log.
    """

    def copy(target):
        subprocess.run(["cp", "-r", painted_archive, target], check=True)
        return target

    return copy


@pytest.fixture(scope="session")
def viewer(painted_archive):
    """The running server."""
    with serving(painted_archive) as running:
        yield running


@pytest.fixture(scope="session")
def client(viewer):
    """A client that knows the token."""
    with httpx.Client(
        base_url=viewer.origin, headers={"authorization": f"Bearer {viewer.token}"}, timeout=60, trust_env=False
    ) as made:
        yield made


@pytest.fixture(scope="session")
def slides(client):
    """The slides as the API lists them, by id."""
    return {slide["id"]: slide for slide in client.get("/api/slides").json()["slides"]}


WAIT = 30_000


@pytest.fixture
def expected():
    """What the console of a test may say: nothing."""
    return ""


@pytest.fixture
def served(viewer):
    """The server that `page` opens."""
    return viewer


@pytest.fixture
def page(chromium, served, request, expected):
    """A new page at the address that was printed; the test fails when anything in it complains."""
    wide = getattr(request, "param", (1280, 800))
    context = chromium.new_context(viewport={"width": wide[0], "height": wide[1]})
    context.set_default_timeout(WAIT)
    made = context.new_page()
    complaints = []
    made.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    made.on("pageerror", lambda error: complaints.append(str(error)))
    made.goto(served.url)
    made.wait_for_selector(".card, .card-row")
    yield made
    context.close()
    assert [text for text in complaints if not expected or expected not in text] == []
