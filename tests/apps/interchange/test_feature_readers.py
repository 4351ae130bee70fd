"""Feature files of other tools are read exactly, or refused with one clear cause; nothing in them is ever run."""

import io
import os
import zipfile
import zlib

import h5py
import numpy as np
import pytest
import torch

from slideseek.errors import SlideError
from slideseek_apps.interchange.feature_readers import is_feature_file, read_feature_file

FEATURES = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
XY = np.arange(12).reshape(6, 2) * 256


def h5(path, features=FEATURES, coords=XY, **attributes):
    with h5py.File(path, "w") as file:
        if features is not None:
            file["features"] = features
        if coords is not None:
            file["coords"] = coords
            file["coords"].attrs.update(attributes)


# What is sound


def test_trident(tmp_path):
    h5(tmp_path / "a.h5", patch_size=256, patch_size_level0=512, level0_magnification=40, target_magnification=20)
    file = read_feature_file(tmp_path / "a.h5")
    assert np.array_equal(file.features, FEATURES) and file.features.dtype == np.float32
    assert file.xy is not None and np.array_equal(file.xy, XY) and file.xy.dtype == np.int32
    assert (file.side, file.extent, file.magnification, file.slide_mpp) == (256, 512, 40, 0)


@pytest.mark.parametrize(
    ("attributes", "extent"),
    [
        ({"patch_size": 256, "level0_magnification": 40, "target_magnification": 10}, 1024),
        ({"patch_size": 256, "patch_level": 0}, 256),
        ({"patch_size": 256, "patch_level": 0, "custom_downsample": 2}, 512),
        ({"patch_size": 256, "patch_level": 1}, 0),
        ({"patch_size_level0": -3}, 0),
        ({"patch_size_level0": "512"}, 0),
        ({"patch_size_level0": [512, 512]}, 0),
        ({}, 0),
    ],
)
def test_the_extent_of_a_patch_is_stated_in_several_ways(tmp_path, attributes, extent):
    h5(tmp_path / "a.h5", **attributes)
    assert read_feature_file(tmp_path / "a.h5").extent == extent


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_precisions_and_a_leading_axis(tmp_path, dtype):
    h5(tmp_path / "a.h5", FEATURES.astype(dtype)[None], XY.astype(np.float64)[None])
    file = read_feature_file(tmp_path / "a.h5")
    assert np.array_equal(file.features, FEATURES.astype(dtype).astype(np.float32))
    assert file.xy is not None and np.array_equal(file.xy, XY)


def test_packed_hdf5(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("features", data=FEATURES, chunks=(4, 5), compression="gzip")
        file.create_dataset("coords", data=XY, chunks=(4, 2), maxshape=(None, 2), compression="gzip")
    assert np.array_equal(read_feature_file(tmp_path / "a.h5").features, FEATURES)


def test_without_coords(tmp_path):
    h5(tmp_path / "a.h5", coords=None)
    np.save(tmp_path / "a.npy", FEATURES)
    np.save(tmp_path / "b.npy", np.asfortranarray(FEATURES))
    np.savez(tmp_path / "a.npz", features=FEATURES)
    torch.save(torch.from_numpy(FEATURES), tmp_path / "a.pt")
    for name in ("a.h5", "a.npy", "b.npy", "a.npz", "a.pt"):
        file = read_feature_file(tmp_path / name)
        assert np.array_equal(file.features, FEATURES) and file.xy is None, name


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_with_coords(tmp_path, save):
    save(tmp_path / "a.npz", features=FEATURES, coords=XY)
    file = read_feature_file(tmp_path / "a.npz")
    assert file.xy is not None and np.array_equal(file.features, FEATURES) and np.array_equal(file.xy, XY)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_tensors_of_other_precisions(tmp_path, dtype):
    tensor = torch.from_numpy(FEATURES).to(dtype)
    torch.save(tensor, tmp_path / "a.pt")
    assert np.array_equal(read_feature_file(tmp_path / "a.pt").features, tensor.float().numpy())


def test_names():
    assert is_feature_file("x/a.H5") and is_feature_file("a.pt")
    assert not is_feature_file(".a.h5") and not is_feature_file("a.svs") and not is_feature_file("a.h5.lock")


# What is refused: HDF5


def external_link(path):
    h5(path.with_name("other.h5"))
    h5(path, None)
    with h5py.File(path, "a") as file:
        file["features"] = h5py.ExternalLink("other.h5", "/features")


def soft_link(path):
    h5(path, None)
    with h5py.File(path, "a") as file:
        file["real"] = FEATURES
        file["features"] = h5py.SoftLink("/real")


def soft_coords(path):
    h5(path, coords=None)
    with h5py.File(path, "a") as file:
        file["real"] = XY
        file["coords"] = h5py.SoftLink("/real")


def outside_storage(path):
    path.with_name("secret").write_bytes(bytes(200))
    h5(path, None)
    with h5py.File(path, "a") as file:
        file.create_dataset("features", (6, 5), "f4", external=[(str(path.with_name("secret")), 0, 120)])


def virtual(path):
    h5(path.with_name("other.h5"))
    h5(path, None)
    layout = h5py.VirtualLayout((6, 5), "f4")
    layout[:] = h5py.VirtualSource(str(path.with_name("other.h5")), "features", (6, 5))
    with h5py.File(path, "a") as file:
        file.create_virtual_dataset("features", layout)


def group(path):
    h5(path, None)
    with h5py.File(path, "a") as file:
        file.create_group("features")


def absurd_shape(path):
    h5(path, None)
    with h5py.File(path, "a") as file:
        file.create_dataset("features", (1 << 30, 1 << 20), "f4", chunks=(1, 1 << 20))


def absurd_chunk(path):
    h5(path, None)
    with h5py.File(path, "a") as file:
        packing = {"compression": "gzip", "maxshape": (None, 5), "chunks": (1 << 26, 5)}
        chunk = file.create_dataset("features", (6, 5), "f4", **packing)
        chunk.id.write_direct_chunk((0, 0), zlib.compress(bytes(1000)))


def hdf5_bomb(path):
    h5(path, None)
    with h5py.File(path, "a") as file:
        bomb = file.create_dataset("features", (1 << 14, 2048), "f4", chunks=(1 << 10, 2048), compression="gzip")
        chunk = zlib.compress(bytes(4 * 2048 << 10))
        for row in range(0, 1 << 14, 1 << 10):
            bomb.id.write_direct_chunk((row, 0), chunk)


def never_written(path):
    h5(path, None)
    with h5py.File(path, "a") as file:
        file.create_dataset("features", (6, 5), "f4")


def half_written(path):
    h5(path, None)
    with h5py.File(path, "a") as file:
        file.create_dataset("features", (6, 5), "f4", chunks=(2, 5))[:2] = FEATURES[:2]


def not_a_number(path):
    features = FEATURES.copy()
    features[3, 1] = np.nan
    h5(path, features)


def infinite(path):
    h5(path, np.full((6, 5), 1e300))


def no_patches(path):
    h5(path, FEATURES[:0], XY[:0])


def no_features(path):
    h5(path, None)


def whole_numbers(path):
    h5(path, FEATURES.astype(np.int32))


def text_array(path):
    h5(path, np.full((6, 5), b"x"))


def fewer_places(path):
    h5(path, FEATURES, XY[:5])


def fractions(path):
    h5(path, FEATURES, XY + 0.5)


def far_away(path):
    h5(path, FEATURES, XY + (1 << 40))


def truncated(path):
    h5(path)
    path.write_bytes(path.read_bytes()[:-100])


def text_file(path):
    path.write_text("not HDF5")


def empty_file(path):
    path.write_bytes(b"")


def pipe(path):
    os.mkfifo(path)


HDF5_TRAPS = {
    external_link: "'features' is a link",
    soft_link: "'features' is a link",
    soft_coords: "'coords' is a link",
    outside_storage: "not a dataset stored in the file itself",
    virtual: "not a dataset stored in the file itself",
    group: "not a dataset stored in the file itself",
    absurd_shape: "'features' claims 4,503,599,627,370,496 bytes and stores 0",
    absurd_chunk: "'features' claims 1,342,177,280 bytes",
    hdf5_bomb: "'features' claims 134,217,728 bytes",
    never_written: "'features' is incomplete: parts of it were never written",
    half_written: "'features' is incomplete: parts of it were never written",
    not_a_number: "1 of its values are not finite, the first in row 3",
    infinite: "30 of its values are not finite, the first in row 0",
    no_patches: "it has no patches",
    no_features: "'features' is missing",
    whole_numbers: "'features' is int32, not floats",
    text_array: "'features' is |S1, not floats",
    fewer_places: "'coords' has shape (5, 2), not (6, 2)",
    fractions: "'coords' are not whole level-0 pixels",
    far_away: "'coords' are outside any slide",
    truncated: "it cannot be read (Unable to",
    text_file: "it cannot be read (Unable to",
    empty_file: "it cannot be read (Unable to",
    pipe: "it is not a regular file",
}


@pytest.mark.parametrize("trap", HDF5_TRAPS, ids=lambda trap: trap.__name__)
def test_hdf5_traps(tmp_path, trap):
    trap(tmp_path / "a.h5")
    with pytest.raises(SlideError) as caught:
        read_feature_file(tmp_path / "a.h5")
    assert HDF5_TRAPS[trap] in caught.value.cause
    assert "\n" not in caught.value.cause and caught.value.fix


# What is refused: NumPy


def npy_header(shape, dtype="<f4", version=b"\x01\x00"):
    head = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode() + b"\n"
    length = len(head).to_bytes(2 if version[0] == 1 else 4, "little")
    return b"\x93NUMPY" + version + length + head


def object_array(marker):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(marker),)

    stream = io.BytesIO()
    np.save(stream, np.array([[Evil()]], dtype=object), allow_pickle=True)
    return stream.getvalue()


NPY_TRAPS = {
    "absurd shape": (npy_header((1 << 40, 1024)) + b"\0" * 64, "claims 4,503,599,627,370,496 bytes but has 64"),
    "overflowing shape": (npy_header((1 << 62, 1 << 62)), "bytes but has 0"),
    "negative shape": (npy_header((-1, 4)) + bytes(16), "has shape (-1, 4)"),
    "too much": (npy_header((1, 4)) + bytes(17), "claims 16 bytes but has 17"),
    "another version": (npy_header((1, 4), version=b"\x03\x00") + bytes(16), "version 3.0"),
    "records": (npy_header((2, 2), [("a", "<f4")]) + bytes(16), "not floats"),
    "no header": (b"\x93NUMPY\x01\x00\x10\x00{[(]}'\n\t@@##$$)!", ""),
    "text": (b"hello", "magic"),
}


@pytest.mark.parametrize("name", NPY_TRAPS)
def test_npy_traps(tmp_path, name):
    content, cause = NPY_TRAPS[name]
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(SlideError) as caught:
        read_feature_file(tmp_path / "a.npy")
    assert cause in caught.value.cause


def test_pickled_arrays_are_never_read(tmp_path):
    evil = object_array(tmp_path / "ran")
    (tmp_path / "a.npy").write_bytes(evil)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("features.npy", evil)
    for name in ("a.npy", "a.npz"):
        with pytest.raises(SlideError, match="contains Python objects, which are never read"):
            read_feature_file(tmp_path / name)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("members", "cause"),
    [
        ({"features.npy": npy_header((1 << 14, 2048)) + bytes(4 * 2048 << 14)}, "'features' claims 134,217,"),
        ({"features.npy": npy_header((1 << 40, 8)) + bytes(32)}, "'features' claims 35,184,372,088,832 bytes but has"),
        (
            {"features.npy": npy_header((4, 2)) + bytes(32), "coords.npy": npy_header((4, 3)) + bytes(48)},
            "'coords' has",
        ),
        ({"x.npy": npy_header((4, 2)) + bytes(32)}, "no array 'features' (arrays: x.npy)"),
    ],
    ids=["bomb", "lying shape", "coords", "other name"],
)
def test_npz_traps(tmp_path, members, cause):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    with pytest.raises(SlideError) as caught:
        read_feature_file(tmp_path / "a.npz")
    assert cause in caught.value.cause


def test_a_damaged_npz(tmp_path):
    np.savez(tmp_path / "a.npz", features=FEATURES)
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[200] ^= 1  # inside the array: the checksum of the member tells
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(SlideError, match="CRC"):
        read_feature_file(tmp_path / "a.npz")


# What is refused: PyTorch


def test_a_tensor_file_with_code_is_never_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    torch.save(Evil(), tmp_path / "a.pt")
    with pytest.raises(SlideError, match=r"it would run \w+\.mkdir; a feature file is one tensor and contains no code"):
        read_feature_file(tmp_path / "a.pt")
    torch.save({"features": torch.from_numpy(FEATURES), "more": Evil()}, tmp_path / "b.pt")
    with pytest.raises(SlideError, match="it would run"):
        read_feature_file(tmp_path / "b.pt")
    assert not (tmp_path / "ran").exists()


def repacked(path, change, method=zipfile.ZIP_STORED):
    torch.save(torch.from_numpy(FEATURES), path)
    with zipfile.ZipFile(path) as file:
        parts = {part.filename: file.read(part) for part in file.infolist()}
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in parts.items():
            file.writestr(name, change(content) if name.endswith("data.pkl") else content)


def more_rows(structure):
    """State 2 ** 28 rows where there are 6: what the tensor's storage, shape and steps say of its size."""
    return structure.replace(b"K\x1e", b"J\x00\x00\x00\x50").replace(b"K\x06K\x05\x86", b"J\x00\x00\x00\x10K\x05\x86")


TENSOR_TRAPS = {
    "dictionary": (lambda path: torch.save({"x": torch.ones(2, 2)}, path), "it holds a dict, not one tensor"),
    "list": (lambda path: torch.save([torch.ones(2, 2)], path), "it holds a list, not one tensor"),
    "integers": (lambda path: torch.save(torch.ones(4, 2, dtype=torch.int64), path), "torch.int64, not floats"),
    "not finite": (lambda path: torch.save(torch.full((4, 2), torch.inf), path), "8 of its values are not finite"),
    "one row said to be many": (
        lambda path: torch.save(torch.ones(1, 4).expand(1 << 40, 4), path),
        "claims 17,592,186,044,416 bytes, but the file has 16",
    ),
    "part of a larger tensor": (lambda path: torch.save(torch.ones(9, 4)[:3], path), "claims 48 bytes, but the file"),
    "more than is there": (lambda path: repacked(path, more_rows), "PyTorch cannot read it"),
    "nonsense": (
        lambda path: repacked(path, lambda part: b"\x80\x02" + b"?" * 20),
        "not have the structure of a tensor",
    ),
    "packed": (lambda path: repacked(path, bytes, zipfile.ZIP_DEFLATED), "it is compressed, which PyTorch never does"),
    "large structure": (lambda path: repacked(path, lambda part: part + bytes(2 << 20)), "more than one tensor"),
    "old": (
        lambda path: torch.save(torch.ones(4, 2), path, _use_new_zipfile_serialization=False),
        "not a file of PyTorch 1.6 or later",
    ),
    "text": (lambda path: path.write_text("hello"), "not a file of PyTorch 1.6 or later"),
}


@pytest.mark.parametrize("name", TENSOR_TRAPS)
def test_tensor_traps(tmp_path, name):
    write, cause = TENSOR_TRAPS[name]
    write(tmp_path / "a.pt")
    with pytest.raises(SlideError) as caught:
        read_feature_file(tmp_path / "a.pt")
    assert cause in caught.value.cause and "\n" not in caught.value.cause


def test_a_tensor_repacked_unchanged_is_read(tmp_path):
    repacked(tmp_path / "a.pt", bytes)
    assert np.array_equal(read_feature_file(tmp_path / "a.pt").features, FEATURES)
