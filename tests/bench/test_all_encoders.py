"""The table of all encoders: all have a row, parts are kept, conditioned codes are not given what is searched for."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.encoder_codes import Once
from slideseek.interfaces import Trainable

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench import all_encoder_entries, all_encoders, encoder_entries
from slideseek.plugins import load_registry
from slideseek.types import Bag
from slideseek_components.encoders.deep_bfv import DeepBinaryFisherVector
from slideseek_components.encoders.deep_fv import DeepFisherVector
from slideseek_components.encoders.deep_sbfv import DeepSparseBinaryFisherVector
from slideseek_components.encoders.gmm_fv import GmmFisher
from slideseek_components.encoders.projected import Projected

WRAPPING = {"joined", "projected", "imported", "lazyslide", "lazyslide-text"}
"""Those that take other encoders, vectors or published networks, which no feature set here has."""
"""Encoders of other encoders, which rows contain, and the one that stands for vectors made elsewhere."""


@pytest.fixture
def data(tmp_path):
    """Sixteen slides of eight patients, two sites and two labels in each, as the atlases are stored."""
    rng = np.random.default_rng(0)
    sites, labels = np.repeat(["lung", "skin"], 8), np.tile(["x", "x", "y", "y"], 4)
    rows, bag = [], []
    for i in range(16):
        centre = np.zeros(6)
        centre[0], centre[1] = 3 * (sites[i] == "skin"), 3 * (labels[i] == "y")
        rows.append(rng.normal(centre, size=(12, 6)))
        bag += [i] * 12
    (tmp_path / "bags").mkdir()
    np.savez(
        tmp_path / "bags" / "atlas_lite2.npz",
        x=np.concatenate(rows).astype(np.float16),
        bag=np.array(bag),
        slide_id=np.array([f"s{i}" for i in range(16)]),
        patient=np.array([f"p{i // 2 % 2}{i % 2}{sites[i]}" for i in range(16)]),
        site=sites,
        label=labels,
    )
    return tmp_path


def run(monkeypatch, data, *given):
    command = ["all_encoders", "--data", data, "--keep", data / "keep", "--sets", "atlas", "--seeds", "2", *given]
    monkeypatch.setattr(sys, "argv", list(map(str, command)))
    all_encoders.main()


def test_every_encoder_has_a_row():
    named = {name for row in all_encoder_entries.ROWS for name in row.replace(" and ", ", ").split(", ")}
    registered = {entry.name for entry in load_registry(disabled=(), kinds=("encoder",)).registrations("encoder")}
    assert registered - WRAPPING <= named


def test_tables_are_made_in_parts_and_conditioned_codes_only_within_sites(data, monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Results\n\n{all_encoders.MARK}\n\nformer figures\n")
    rows = ("--encoders", "mean", "c-gmm-fv", "bovw")
    with pytest.raises(SystemExit, match="42 fits are left"):
        run(monkeypatch, data, *rows, "--minutes", "0.0000001")
    run(monkeypatch, data, "--encoders", "mean", "--only-compute")
    kept = {path.name for path in (data / "keep").iterdir()}
    assert len(kept) == 14, "two seeds of five and of two fits"
    run(monkeypatch, data, *rows, "--page", page)
    assert kept <= {path.name for path in (data / "keep").iterdir()}
    text = page.read_text()
    assert text.startswith("# Results\n\n") and "former figures" not in text
    first = next(line for line in text.splitlines() if line.startswith("| c-gmm-fv"))
    cells = first.strip("| ").split(" | ")
    assert cells[1:3] == ["–", "–"], "the site is given to a conditioned encoder, so it cannot be searched for"
    assert cells[3] != "–"
    assert "**" in text and "probability of the highest mAP" in text
    monkeypatch.setattr(all_encoders, "distances_after_fit", None)
    run(monkeypatch, data, *rows, "--page", page)
    assert page.read_text() == text, "the same figures from what is kept"


def test_other_options_and_revisions_are_kept_apart():
    def named(encoder):
        return [repr(encoder), *all_encoder_entries.revisions(encoder)]

    shared = Once(GmmFisher(seed=1))
    assert named(shared) == named(GmmFisher(seed=1)) != named(GmmFisher(seed=2))
    inner = list(all_encoder_entries.revisions(encoder_entries.recommended(0)))
    assert inner[0].startswith("Projected ") and sum(name.startswith("GmmFisher ") for name in inner) == 2


def test_distances_by_one_product_are_those_of_the_index():
    from bench.encoder_codes import distances
    from slideseek.types import Code

    rng = np.random.default_rng(0)
    codes = [Code(f"s{i}", rng.normal(size=(1, 50)).astype(np.float32)) for i in range(6)]
    assert np.allclose(all_encoders.cosine_distances(codes), distances(codes, False), atol=1e-6)


@pytest.mark.slow
def test_one_row_stands_for_both_binary_encoders():
    rng = np.random.default_rng(0)
    bags = [
        Bag(f"s{i}", rng.normal(i % 2, 1, (20, 12)).astype(np.float32), np.zeros((20, 2), dtype=np.int32))
        for i in range(8)
    ]
    labels, groups = [str(i % 2) for i in range(8)], [f"p{i}" for i in range(8)]
    options: dict[str, Any] = {"preset": "best", "hidden": (16, 8), "latent": 4, "device": "cpu"}
    made: list[Trainable] = [
        DeepBinaryFisherVector(**options),
        DeepSparseBinaryFisherVector(**options),
        Projected(of=DeepFisherVector(projection="none", **options)),
    ]
    for encoder in made:
        encoder.fit(bags, labels, groups)
    assert len({encoder.encode(bags[0]).rows.tobytes() for encoder in made}) == 1
