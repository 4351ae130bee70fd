"""Write features as other tools write them: the same names, shapes, types, attributes and folders."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

MPP = 0.25
"""µm per level-0 pixel of the slides."""

Bags = dict[str, tuple[NDArray[np.float32], NDArray[np.int64]]]


def made(path: Path) -> Path:
    """Make the folder of a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def trident_vectors(top: Path, bags: Bags) -> Path:
    """One vector per slide and the coords of its patches, in `slide_features_titan`."""
    for slide, (features, xy) in bags.items():
        with h5py.File(made(top / "20x_512px_0px_overlap" / "slide_features_titan" / f"{slide}.h5"), "w") as file:
            file.create_dataset("features", data=features.mean(axis=0))
            file.create_dataset("coords", data=xy)
    return top


def stamp(top: Path, bags: Bags) -> Path:
    """`feats` in half precision and `coords` in µm, as float32."""
    for slide, (features, xy) in bags.items():
        with h5py.File(made(top / "uni2-1f2e3d4c" / f"{slide}.h5"), "w") as file:
            file["coords"] = (xy * MPP).astype(np.float32)
            file["feats"] = features.astype(np.float16)
            said = {"extractor": "uni2", "unit": "um", "tile_size_um": 16.0, "tile_size_px": 32}
            file.attrs.update({"stamp_version": "2.4.0", "code_hash": "1f2e3d4c", "feat_type": "tile", **said})
    return top


def stamp_vectors(top: Path, bags: Bags) -> Path:
    """The file of a slide encoder: one dataset per slide."""
    with h5py.File(made(top / "chief-slide-1f2e3d4c.h5"), "w") as file:
        for slide, (features, _) in bags.items():
            file.create_dataset(slide, data=features.mean(axis=0))
        file.attrs.update({"version": "2.4.0", "encoder": "chief", "precision": "torch.float32"})
    return top


def atlaspatch(top: Path, bags: Bags) -> Path:
    """`patches/<slide>.h5` with coords of five columns, growing datasets in groups, attributes on the file."""
    for slide, (features, xy) in bags.items():
        rows = len(xy)
        five = np.concatenate([xy, np.full((rows, 2), 32), np.ones((rows, 1))], axis=1).astype(np.int32)
        with h5py.File(made(top / "patches" / f"{slide}.h5"), "w") as file:
            file.create_dataset("coords", data=five, maxshape=(None, 5), chunks=(4, 5))
            file.create_dataset("passports", data=np.array([b"x"] * rows, "S160"), maxshape=(None,), chunks=(4,))
            group = file.require_group("features")
            group.create_dataset(
                "uni_v2", data=features, maxshape=(None, features.shape[1]), chunks=(4, len(features[0]))
            )
            vector = file.require_group("slide_features").create_dataset("titan", data=features.mean(axis=0))
            vector.attrs.update({"encoder_name": "titan", "source_patch_encoder": "conch_v15"})
            said = {"patch_size": 32, "patch_size_level0": 64, "level0_magnification": 40, "target_magnification": 20}
            file.attrs.update({**said, "overlap": 0, "num_patches": rows, "wsi_path": f"/slides/{slide}.svs"})
    return top


def slide2vec(top: Path, bags: Bags, suffix: str = "npz") -> Path:
    """`tile_embeddings/<slide>.npz` or `.pt`, positions and settings in the sister folder `tiles`."""
    import torch

    for slide, (features, xy) in bags.items():
        path = made(top / "tile_embeddings" / f"{slide}.{suffix}")
        if suffix == "npz":
            np.savez_compressed(path, features=features, tile_index=np.arange(len(xy), dtype=np.int32))
        else:
            torch.save(torch.from_numpy(features), path)
        meta = {"sample_id": slide, "artifact_type": "tile_embeddings", "encoder_name": "virchow2"}
        path.with_name(f"{slide}.meta.json").write_text(json.dumps(meta))
        where = made(top / "tiles" / f"{slide}.coordinates.npz")
        index, share = np.arange(len(xy), dtype=np.int32), np.ones(len(xy), np.float32)
        np.savez_compressed(where, tile_index=index, x=xy[:, 0], y=xy[:, 1], tissue_fractions=share)
        tiling = {"requested_tile_size_px": 32, "requested_spacing_um": 0.5, "tile_size_lv0": 64, "n_tiles": len(xy)}
        said = {"slide": {"base_spacing_um": MPP}, "tiling": tiling, "artifact": {"coordinate_space": "level0_px"}}
        (top / "tiles" / f"{slide}.coordinates.meta.json").write_text(json.dumps(said))
    return top


def slide2vec_pt(top: Path, bags: Bags) -> Path:
    """The same as tensors."""
    return slide2vec(top, bags, "pt")


def lazyslide(top: Path, bags: Bags) -> Path:
    """`<slide>.zarr`: AnnData tables and GeoParquet shapes in a SpatialData store. Its tables are in another order."""
    import anndata
    import pandas
    import pyarrow
    import pyarrow.parquet as parquet
    import zarr

    top.mkdir(parents=True, exist_ok=True)
    for slide, (features, xy) in bags.items():
        store = zarr.open_group(top / f"{slide}.zarr", mode="w")
        spec = {"height": 32, "width": 32, "mpp": 0.5, "ops_level": 0, "base_level": 0, "base_downsample": 2.0}
        store.attrs["spatialdata_attrs"] = {"version": "0.2", "spatialdata_software_version": "0.7.3"}
        store.attrs["slide_properties"] = {"mpp": MPP, "magnification": None, "n_level": 1}
        store.attrs["tile_spec"] = {"tiles": spec}
        shapes = store.create_group("shapes/tiles")
        shapes.attrs.update({"encoding-type": "ngff:shapes", "axes": ["x", "y"]})
        rows = np.arange(len(xy))
        columns: dict[str, Any] = {"tile_id": rows, "x": xy[:, 0], "y": xy[:, 1], "tissue_id": np.zeros(len(xy), int)}
        columns["geometry"] = [b"\x01\x03" for _ in rows]
        parquet.write_table(pyarrow.table(columns), top / f"{slide}.zarr" / "shapes" / "tiles" / "shapes.parquet")
        back = rows[::-1]
        obs = pandas.DataFrame({"tile_id": back, "library_id": pandas.Categorical(["tiles"] * len(xy))})
        table = anndata.AnnData(X=features[back], obs=obs.set_index(back.astype(str)))
        table.uns["agg_ops"] = {"agg_slide": {"encoder": "titan", "features": features.mean(axis=0)[None]}}
        anndata.io.write_elem(store, "tables/uni_tiles", table)
        said = {"region": "tiles", "region_key": "library_id", "instance_key": "tile_id", "version": "0.2"}
        store["tables/uni_tiles"].attrs.update(said)
    return top


def tiatoolbox(top: Path, bags: Bags) -> Path:
    """`<slide>.zarr` with boxes in pixels as the patches were read, at 0.5 µm per pixel."""
    import zarr

    top.mkdir(parents=True, exist_ok=True)
    for slide, (features, xy) in bags.items():
        store = zarr.open_group(top / f"{slide}.zarr", mode="w")
        store.create_array("features", data=features)
        store.create_array("coordinates", data=np.concatenate([xy // 2, xy // 2 + 32], axis=1))
    return top
