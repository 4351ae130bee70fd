"""Evidence: what the patches make is the distance a search shows."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from slideseek.archive.archive import Archive
from slideseek.cli import main
from slideseek.errors import NotAttributableError, PluginError, SlideseekError, UsageError
from slideseek.searching.evidence import Evidence, Explainer
from slideseek.searching.patch_squares import PatchSquares
from slideseek.searching.queries import Region
from slideseek.searching.searcher import Searcher
from slideseek.types import Hit
from slideseek_components.encoders.max import Max
from slideseek_components.indexes.cosine import Cosine
from slideseek_components.indexes.hamming import Hamming

ENGINE = """
[[engine]]
name       = "{name}"
selector   = {{ use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }}
featurizer = {{ use = "colour-texture" }}
encoder    = {{ {encoder} }}
index      = {{ {index} }}
"""
DEEP = "preset = 'best', hidden = [16], latent = 4, epochs = 2, batch_size = 16, device = 'cpu'"
ENGINES = {
    "bars": ("use = 'yottixel'", "use = 'hamming'"),
    "target": ("use = 'yottixel'", "use = 'hamming', direction = 'target'"),
    "symmetric": ("use = 'yottixel'", "use = 'hamming', direction = 'symmetric'"),
    "centred": ("use = 'yottixel'", "use = 'hamming', direction = 'symmetric', centring = 0.9"),
    "mean": ("use = 'mean'", "use = 'cosine'"),
    "words": ("use = 'bovw', words = 4", "use = 'cosine'"),
    "vlad": ("use = 'vlad', words = 4", "use = 'cosine'"),
    "fisher": ("use = 'gmm-fv', components = 2", "use = 'cosine'"),
    "by-site": ("use = 'c-gmm-fv', components = 2", "use = 'cosine'"),
    "deep": (f"use = 'deep-fv', {DEEP}", "use = 'cosine'"),
    "deep-sparse": (f"use = 'deep-sfv', {DEEP}", "use = 'sparse'"),
    "deep-bits": (f"use = 'deep-bfv', bits = 100, {DEEP}", "use = 'hamming'"),
    "max": ("use = 'max'", "use = 'cosine'"),
}
SETS = ("bars", "target", "symmetric", "centred")
SINGLE = ("mean", "max", "words", "vlad", "fisher", "by-site", "deep", "deep-sparse", "deep-bits")


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Six painted slides of different widths, two sites, two a patient, built with every engine."""
    folder = tmp_path_factory.mktemp("evidence")
    rows = ["slide_id,filename,case_id,primary_site,diagnosis,mpp"]
    for number in range(6):
        rng, step = np.random.default_rng(number), (4, 16)[number % 2]
        texture = np.kron(rng.random((20, 24 + 4 * number)), np.ones((16, 16)))
        texture = np.kron(rng.random((texture.shape[0] // step, texture.shape[1] // step)), np.ones((step, step)))
        image = np.array([225.0, 150.0, 190.0]) - texture[..., None] * np.array([115.0, 90.0, 50.0])
        image[:40], image[:, :40] = 244, 244
        Image.fromarray(image.astype(np.uint8)).save(folder / f"s{number}.png")
        rows.append(f"s{number},s{number}.png,p{number // 2},{('colon', 'lung')[number // 4]},d{number % 2},1.0")
    (folder / "manifest.csv").write_text("\n".join(rows) + "\n")
    (folder / "engines.toml").write_text(
        "".join(ENGINE.format(name=name, encoder=encoder, index=index) for name, (encoder, index) in ENGINES.items())
    )
    root = folder / "archive"
    for arguments in (
        ("init", root, "--config", folder / "engines.toml"),
        ("add", folder, "--manifest", folder / "manifest.csv", "-a", root),
        ("build", "-a", root),
    ):
        with pytest.raises(SystemExit) as done:
            main([str(argument) for argument in arguments])
        assert not done.value.code
    with Archive(root) as opened:
        yield opened


def searching(archive, name) -> Searcher:
    return Searcher.open(archive, name)


def answers(searcher, query):
    return searcher.search(query, 99, include_same_patient=True).found


@pytest.mark.parametrize("name", SETS)
def test_the_pairs_of_a_set_make_the_distance_shown(archive, name):
    searcher = searching(archive, name)
    query = searcher.queries.stored("s1")
    found = answers(searcher, query)
    index: Any = searcher.index.inner
    own = index.shift("s1")
    assert len(found) == 6 and found[0].hit == Hit("s1", own) and (name == "centred" or own == 0)
    for one in found:
        made = Explainer(searcher).explain(query, one.hit.slide_id)
        forth = [pair.distance for pair in made.pairs]
        assert made.kind == "pairs" and made.value == one.hit.distance
        assert forth == sorted(forth) and {pair.query for pair in made.pairs} == set(range(len(made.query)))
        wanted = {"bars": np.median(forth), "target": -np.median(made.hit_parts)}
        assert made.value - made.shift == wanted.get(name, (np.median(forth) - np.median(made.hit_parts)) / 2)
        assert made.shift >= 0 and (made.shift == 0 or name == "centred")
        code = searcher.queries.stored(one.hit.slide_id).code.rows
        for pair in made.pairs:
            bits = np.unpackbits(query.code.rows[pair.query] ^ code[pair.hit]).sum()
            assert pair.distance == bits == -made.parts[pair.query] and pair.hit < len(made.hit)


@pytest.mark.parametrize("name", SINGLE)
def test_contributions_add_up_to_the_similarity_shown(archive, name):
    searcher = searching(archive, name)
    query = searcher.queries.stored("s1")
    found = answers(searcher, query)
    assert len(found) == (4 if name == "by-site" else 6)
    for one in found:
        made = Explainer(searcher).explain(query, one.hit.slide_id)
        unit = searcher.engine.spec.width if searcher.engine.spec.kind == "bits" else 1
        assert made.kind == "contributions" and made.pairs == ()
        assert made.value == made.parts.sum() == pytest.approx(1 - one.hit.distance / unit, abs=2e-6)
        assert made.hit_parts.sum() == pytest.approx(made.value, abs=2e-6)
        assert (len(made.parts), len(made.hit_parts)) == (len(made.query), len(made.hit))


def test_squares_are_those_of_the_slide(archive, tmp_path):
    searcher = searching(archive, "bars")
    whole = searcher.queries.stored("s4")
    assert whole.slide_path is not None and whole.slide_path.is_file()
    assert whole.slide_path == archive.slide_path(whole.record)
    assert np.array_equal(whole.bag().xy, whole.squares().xy) and set(whole.squares().side) == {64.0}
    part = searcher.queries.region("s4", Region(70, 64, 200, 140))
    made = Explainer(searcher).explain(part, "s4")
    assert made.query.xy.tolist() == [[x, y] for y in (64, 128) for x in (70, 134, 198)]
    assert np.array_equal(made.hit.xy, whole.squares().xy)

    copy = tmp_path / "copy.png"
    Image.fromarray(np.asarray(Image.open(whole.slide_path))[:, :300]).save(copy)
    file = searcher.queries.file(copy, mpp=1.0)
    made = Explainer(searcher).explain(file, "s4")
    assert file.slide_path == copy and made.value == 0 and len(made.query) == len(file.code)
    for pair in made.pairs:
        assert made.query.xy[pair.query].tolist() == made.hit.xy[pair.hit].tolist()


def test_a_patch_image_and_a_case_have_evidence(archive, tmp_path):
    searcher = searching(archive, "bars")
    with Image.open(archive.slide_path(searcher.queries.stored("s2").record)) as image:
        image.crop((64, 64, 168, 138)).save(tmp_path / "patch.png")
    patch = searcher.queries.patch(tmp_path / "patch.png", mpp=1.0)
    assert patch.squares().xy.tolist() == [[20, 5]] and patch.squares().side.tolist() == [64.0]
    assert len(Explainer(searcher).explain(patch, "s2").pairs) == 1
    for name in ("bars", "mean"):
        searcher = searching(archive, name)
        case = searcher.queries.case("p1")
        made = Explainer(searcher).explain(case, "s4")
        assert case.slide_path is None and set(made.query.slides) == {"s2", "s3"}
        assert len(made.query) == len(made.parts) == len(made.query.slides)


def test_a_rectangle_of_a_conditioned_engine_is_explained(archive):
    searcher = searching(archive, "by-site")
    part = searcher.queries.region("s0", Region(64, 64, 256, 192))
    (first, *_) = answers(searcher, part)
    made = Explainer(searcher).explain(part, first.hit.slide_id)
    assert made.value == pytest.approx(1 - first.hit.distance, abs=2e-6) and len(made.parts) == 12
    with pytest.raises(UsageError, match="'s0' and 's5' cannot be compared"):
        Explainer(searcher).explain(part, "s5")


@pytest.fixture
def without_attribution(archive, monkeypatch):
    """A searcher whose encoder is made of one that cannot attribute."""

    def refuse(self, bag, code):
        raise NotAttributableError("a part cannot attribute")

    monkeypatch.setattr(Max, "contributions", refuse)
    return searching(archive, "max")


def test_an_encoder_that_cannot_attribute_is_explained_by_leaving_patches_out(without_attribution):
    searcher = without_attribution
    query = searcher.queries.stored("s1")
    made = Explainer(searcher).explain(query, "s2")
    assert (made.kind, made.measure) == ("removals", "1 - cosine")
    assert made.value == pytest.approx(searcher.distance(query, "s2"), abs=1e-6)
    bag, target = query.bag(), searcher.queries.stored("s2").code
    kept = np.arange(len(bag)) != 3
    without = replace(bag, features=bag.features[kept], xy=bag.xy[kept], sides=bag.sides[kept])
    rows = searcher.queries.prepared().encode(without).rows
    grown = searcher.index.inner.row_distances(rows, target.rows)[0, 0] - made.value
    assert made.parts[3] == pytest.approx(grown, abs=1e-9) and len(made.hit_parts) == len(made.hit)


def test_too_many_patches_to_leave_out_is_an_error(without_attribution, monkeypatch):
    monkeypatch.setattr("slideseek.searching.evidence.MOST_REMOVALS", 5)
    searcher = without_attribution
    with pytest.raises(SlideseekError, match=r"too many to leave out .*'max' cannot attribute .*Attributable"):
        Explainer(searcher).explain(searcher.queries.stored("s1"), "s2")


def test_a_slide_that_is_not_there_is_named(archive):
    searcher = searching(archive, "bars")
    with pytest.raises(UsageError, match=r"'s22' is not in the index of engine 'bars': did you mean 's2'"):
        Explainer(searcher).explain(searcher.queries.stored("s1"), "s22")


def test_evidence_that_does_not_make_the_distance_shown_is_refused(archive, monkeypatch):
    searcher = searching(archive, "bars")
    monkeypatch.setattr(searcher.index, "search", lambda code, k, among: [Hit("s2", 1.5)])
    with pytest.raises(PluginError, match=r"index 'hamming' of slideseek .* between rows and shows 1\.5"):
        Explainer(searcher).explain(searcher.queries.stored("s1"), "s2")


def test_features_that_are_gone_are_named(archive):
    searcher = searching(archive, "mean")
    kept: list[tuple[Path, Path]] = []
    try:
        files = list((archive.root / "features").rglob("s2.h5"))
        kept.extend((path, path.rename(path.with_suffix(".gone"))) for path in files)
        assert kept
        with pytest.raises(SlideseekError, match=r"s2\.h5 is missing: run 'slideseek build'"):
            Explainer(searcher).explain(searcher.queries.stored("s1"), "s2")
    finally:
        for path, gone in kept:
            gone.rename(path)


def test_distances_between_rows():
    rng, row_distances = np.random.default_rng(0), Hamming().row_distances
    bits = [rng.integers(0, 256, (n, 3), dtype=np.uint8) for n in (4, 5)]
    wanted = [[np.unpackbits(a ^ b).sum() for b in bits[1]] for a in bits[0]]
    assert row_distances(*bits).tolist() == wanted
    row_distances = Cosine().row_distances
    floats = [rng.normal(size=(n, 3)).astype(np.float32) for n in (4, 5)]
    floats[0][0] = 0
    lengths = [np.linalg.norm(rows, axis=1) for rows in floats]
    wanted = 1 - (floats[0] @ floats[1].T)[1:] / np.outer(*lengths)[1:]
    assert row_distances(*floats)[0].tolist() == [1.0] * 5
    assert np.allclose(row_distances(*floats)[1:], wanted)


def test_a_share_is_given_only_where_it_says_something():
    squares = PatchSquares(np.zeros((1, 2), np.int32), np.ones(1))
    parts = np.zeros(1)

    def share(part, value, kind="contributions"):
        return Evidence(kind, value, squares, squares, (), parts, parts).share(part)

    assert share(0.0546, 0.1) == "54.6%" and share(0.0, 0.1) == "0.0%"
    # A similarity below zero, parts beyond the whole, parts that take away, and what is no sum.
    assert [share(0.0546, -0.0122), share(0.3, 0.1), share(-1e-9, 0.1), share(0.1, 0.2, "removals")] == [""] * 4
