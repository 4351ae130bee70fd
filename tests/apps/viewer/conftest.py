"""A small archive of painted slides, served by a real server on this machine."""

import httpx
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
