"""Folders of features as other tools write them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

ENGINE = """
[[engine]]
name       = "theirs"
selector   = {{ use = "imported", set = "uni_v1" }}
featurizer = {{ use = "imported", set = "uni_v1", width = {width} }}
encoder    = {{ use = "yottixel" }}
index      = {{ use = "hamming" }}
"""


def trident_file(path: Path, features: NDArray[Any], xy: NDArray[Any], **attributes: Any) -> None:
    """Write one file as TRIDENT does: rows are chunks, growing datasets, and the patches in attributes of `coords`."""
    stated = {"patch_size": 64, "patch_size_level0": 64, "level0_magnification": 10, "target_magnification": 10}
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, data in (("features", features), ("coords", xy)):
            whole = (None, *data.shape[1:])
            file.create_dataset(name, data=data, maxshape=whole, chunks=(1, *data.shape[1:]))
        file["features"].attrs.update({"encoder": "uni_v1", "name": path.stem, "savetodir": "elsewhere"})
        file["coords"].attrs.update({**stated, "overlap": 0, "name": path.stem, "savetodir": "elsewhere", **attributes})


def some_bag(seed: int, rows: int = 12, width: int = 24) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Draw the features and the places of one slide."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(np.arange(4), np.arange(rows)), axis=-1).reshape(-1, 2)[:rows]
    return rng.normal(size=(rows, width)).astype(np.float32), grid.astype(np.int64) * 64


@pytest.fixture
def trident_job(tmp_path: Path) -> Path:
    """A job folder of TRIDENT with the features of slides a, b and c by one patch encoder, and all it writes beside."""
    job = tmp_path / "job"
    patched = job / "20x_256px_0px_overlap"
    for number, name in enumerate("abc"):
        features, xy = some_bag(number)
        trident_file(patched / "features_uni_v1" / f"{name}.h5", features, xy)
        with h5py.File(_made(patched / "patches" / f"{name}_patches.h5"), "w") as file:
            file["coords"] = xy
        with h5py.File(_made(patched / "slide_features_titan" / f"{name}.h5"), "w") as file:
            file["features"], file["coords"] = features.mean(axis=0), xy
        _made(job / "contours" / f"{name}.jpg").write_bytes(b"\xff\xd8")
    (patched / "features_uni_v1" / "d.h5.lock").write_text("{}")
    return job


def _made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture
def theirs(tmp_path: Path, slideseek: Callable[..., Any]) -> Callable[..., Path]:
    """Make an empty archive whose one engine uses the imported set `uni_v1`: `theirs(width=24)`."""

    def make(width: int = 24, name: str = "theirs") -> Path:
        config = tmp_path / f"{name}.toml"
        config.write_text(ENGINE.format(width=width))
        assert slideseek("init", tmp_path / name, "--config", config).code == 0
        return tmp_path / name

    return make


@pytest.fixture
def write_trident() -> Callable[..., None]:
    """Write one file as TRIDENT does: `write_trident(path, features, xy, **attributes of coords)`."""
    return trident_file


@pytest.fixture
def bag_of() -> Callable[..., tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Draw a bag: `bag_of(seed, rows, width)`."""
    return some_bag


@pytest.fixture
def codes_of() -> Callable[[Path, str], Mapping[str, NDArray[Any]]]:
    """Read the codes an engine has in an archive, by slide: `codes_of(archive, engine)`."""

    def read(root: Path, name: str) -> Mapping[str, NDArray[Any]]:
        from slideseek.archive.archive import Archive
        from slideseek.archive.payloads import unpack_code
        from slideseek.indexing.live_index import open_engine
        from slideseek.indexing.stage_cache import StageCache
        from slideseek.plugins import load_registry

        with Archive(root) as archive:
            engine = open_engine(archive, archive.config.engine(name), load_registry())
            settings = StageCache(archive, print).settings_digest(engine, "encode")
            return {slide: unpack_code(payload, slide).rows for slide, payload in archive.catalog.codes(settings)}

    return read
