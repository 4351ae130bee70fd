"""Stored patches, bags and codes come back as they were, or are known to be damaged."""

import dataclasses

import h5py
import numpy as np
import pytest

from slideseek.archive.features import read_features
from slideseek.archive.payloads import load_bag, pack_code, pack_patches, store_features, unpack_code, unpack_patches
from slideseek.errors import DamagedError
from slideseek.types import Bag, Code, CodeSpec, Patches

PATCHES = Patches("s", np.array([[0, 1], [5, 7]], np.int32), 256, np.array([0.5, 1.0]))


def same(one, other):
    return all(np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(one))


def test_patches_round_trip():
    assert same(unpack_patches(pack_patches("k", PATCHES, 0.25), "s"), PATCHES)


def test_bag_round_trip_in_the_trident_layout(tmp_path):
    bag = Bag(
        "a/b", np.random.default_rng(0).random((2, 5), np.float32), PATCHES.xy, "colon", np.array([512.0, 1024.0]), 0.25
    )
    payload = store_features(tmp_path, "features/x", "k", bag, PATCHES, 0.25)
    assert same(load_bag(tmp_path, payload, "a/b", "colon"), bag)
    with h5py.File(tmp_path / payload.file) as file:
        assert file["features"].shape == (2, 5) and file["coords"].shape == (2, 2)
        assert file["coords"].attrs["patch_size_level0"] == 512


@pytest.mark.parametrize("kind", ["float", "bits", "sparse"])
@pytest.mark.parametrize("rows", [1, 3])
def test_code_round_trip(kind, rows):
    rng = np.random.default_rng(1)
    spec = CodeSpec(kind, 20, many=True)
    columns, dtype = spec.row_shape
    values = rng.integers(0, 256, (rows, columns)).astype(dtype)
    if kind == "sparse":
        values[:, ::2] = 0
    code = Code("s", values, "colon")
    payload = pack_code("k", code, spec)
    assert same(unpack_code(payload, "s"), code)


def test_a_flipped_bit_is_seen(tmp_path):
    payload = pack_code("k", Code("s", np.ones((1, 3), np.float32)), CodeSpec("float", 3))
    assert payload.data is not None
    damaged = dataclasses.replace(payload, data=bytes([payload.data[0] ^ 1]) + payload.data[1:])
    with pytest.raises(DamagedError, match="does not match its SHA-256"):
        unpack_code(damaged, "s")
    stored = store_features(tmp_path, "f", "k", Bag("s", np.ones((2, 3), np.float32), PATCHES.xy), PATCHES, 0.5)
    path = tmp_path / stored.file
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedError, match="SHA-256"):
        load_bag(tmp_path, stored, "s", "")
    path.unlink()
    with pytest.raises(DamagedError, match="missing"):
        load_bag(tmp_path, stored, "s", "")


def external(file):
    file.create_dataset("features", (4, 2), "f4", external=[("/etc/hostname", 0, 32)])


def soft(file):
    file["real"] = np.zeros((4, 2), "f4")
    file["features"] = h5py.SoftLink("/real")


def outside(file):
    file["features"] = h5py.ExternalLink("other.h5", "/features")


def bomb(file):
    file.create_dataset("features", (1 << 24, 1024), "f4", chunks=(1 << 12, 1024), compression="gzip")


@pytest.mark.parametrize("trap", [external, soft, outside, bomb], ids=lambda f: f.__name__)
def test_feature_files_with_traps_are_refused(tmp_path, trap):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        trap(file)
        file["coords"] = np.zeros((4, 2), "i4")
    with pytest.raises(DamagedError):
        read_features(tmp_path / "x.h5")


@pytest.mark.parametrize(
    ("features", "coords"),
    [
        (np.zeros(4, "f4"), np.zeros((4, 2), "i4")),
        (np.zeros((4, 2), "f4"), np.zeros((3, 2), "i4")),
        (np.zeros((4, 2), "S3"), np.zeros((4, 2), "i4")),
        (None, np.zeros((4, 2), "i4")),
    ],
)
def test_feature_files_of_another_shape_are_refused(tmp_path, features, coords):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        if features is not None:
            file["features"] = features
        file["coords"] = coords
    with pytest.raises(DamagedError):
        read_features(tmp_path / "x.h5")


def test_not_hdf5(tmp_path):
    (tmp_path / "x.h5").write_bytes(b"text")
    with pytest.raises(DamagedError, match="not a valid feature file"):
        read_features(tmp_path / "x.h5")


def test_large_features_are_mapped_and_equal_what_was_written(tmp_path, monkeypatch):
    monkeypatch.setattr("slideseek.archive.features.MAPPED_BYTES", 100)
    bag = Bag("s", np.random.default_rng(0).random((2, 50), np.float32), PATCHES.xy)
    payload = store_features(tmp_path, "f", "k", bag, PATCHES, 0.5)
    read = load_bag(tmp_path, payload, "s", "").features
    assert isinstance(read.base, np.memmap) and not read.flags.writeable
    assert np.array_equal(read, bag.features)


def test_a_trusted_bag_is_not_hashed_again(tmp_path):
    payload = store_features(tmp_path, "f", "k", Bag("s", np.ones((2, 3), np.float32), PATCHES.xy), PATCHES, 0.5)
    other = dataclasses.replace(payload, sha256="0" * 64)
    with pytest.raises(DamagedError, match="SHA-256"):
        load_bag(tmp_path, other, "s", "")
    assert len(load_bag(tmp_path, other, "s", "", trusted=True)) == 2
