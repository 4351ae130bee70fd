"""`slideseek inspect`: what it draws is what a build would select from, and is no slide itself."""

import json
import sys
from dataclasses import dataclass
from functools import partial
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from slideseek import plugins
from slideseek.archive.archive import Archive
from slideseek.boundary import Owner
from slideseek.errors import PluginError
from slideseek.hookspecs import hookimpl
from slideseek.interfaces import TissueFinder
from slideseek.types import Patches
from slideseek_apps.doctor.inspection import inspect_slide
from slideseek_components.selectors.grid import Grid

OWNER = Owner("selector", "toy", "toys 1.0")


@dataclass
class Corner:
    """A selector that looks for no tissue: one patch, at the top left."""

    size: int = 100

    def select(self, slide):
        return Patches.at(slide.id, np.array([[0, 0]]), self.size, slide.mpp)


@dataclass
class Oversized(Corner, TissueFinder):
    """A selector whose tissue has not the shape of the thumbnail."""

    def find_tissue(self, slide, thumbnail):
        return np.ones((3, 4), np.bool_)


@pytest.fixture
def marked(tmp_path):
    """A slide of 3 x 3 mm with a piece of tissue on the left and a blue pen mark on the right."""
    rng = np.random.default_rng(0)
    image = np.full((1500, 1500, 3), 244.0)
    texture = np.kron(rng.random((150, 75)), np.ones((8, 8)))[..., None]
    image[150:1350, 150:750] = np.array([225.0, 150, 190]) * (1 - texture) + np.array([110.0, 60, 140]) * texture
    image[300:1200, 1000:1200] = (20, 40, 200)
    path = tmp_path / "marked.png"
    Image.fromarray(image.astype(np.uint8)).save(path)
    return path


def outline(path, box):
    left, top, right, bottom = box
    ring = [[left, top], [right, top], [right, bottom], [left, bottom], [left, top]]
    path.write_text(json.dumps({"type": "Polygon", "coordinates": [ring]}))
    return path


def test_the_mask_follows_the_selectors_options(marked):
    shares = {
        pen: inspect_slide(marked, Grid(size=200, mpp=2.0, exclude_pen=pen), OWNER, mpp=2.0).facts["tissue_share"]
        for pen in (True, False)
    }
    assert shares[True] == pytest.approx(0.32, abs=0.02)
    assert shares[False] == pytest.approx(0.40, abs=0.02)
    dark = inspect_slide(marked, Grid(size=200, mpp=2.0, tissue="fluorescence"), OWNER, mpp=2.0)
    assert dark.facts["tissue_share"] > 0.5, "the bright glass is what counts there"


def test_the_mask_follows_the_contours(marked, tmp_path):
    drawn = outline(tmp_path / "part.geojson", (100, 100, 400, 700))
    found = inspect_slide(marked, Grid(size=100, mpp=2.0), OWNER, mpp=2.0, contours=drawn)
    assert found.facts["tissue_share"] == pytest.approx(300 * 600 / 1500**2, abs=0.001)
    assert found.facts["patches"] == 18


def test_the_picture_is_not_taken_for_a_slide(tiny_slides, tmp_path, tiny_config, slideseek, monkeypatch):
    monkeypatch.chdir(tiny_slides)
    assert slideseek("inspect", "s0.png", "--mpp", "1").code == 0
    assert (tiny_slides / "s0.inspect.png").exists()
    slideseek("init", tmp_path / "archive", "--config", tiny_config)
    added = slideseek("add", ".", "-a", tmp_path / "archive", "--mpp", "1", "--json").json
    assert added["added"] == [f"s{n}" for n in range(8)]


def test_what_the_archive_knows_of_a_slide_is_used(tiny_archive, tiny_slides, slideseek, tmp_path):
    outline(tiny_slides / "s0.geojson", (40, 40, 168, 168))
    manifest = tiny_slides / "outlined.csv"
    manifest.write_text("slide_id,filename,case_id,mpp,contours\ns0,s0.png,p0,1.0,s0.geojson\n")
    assert slideseek("add", tiny_slides, "--manifest", manifest, "-a", tiny_archive).code == 0
    facts = [
        slideseek("inspect", slide, "-a", tiny_archive, "-o", tmp_path / "p.png", "--json").json
        for slide in ("s0", tiny_slides / "s0.png")
    ]
    assert facts[0] == facts[1]
    assert facts[0]["mpp"] == [1.0, 1.0] and facts[0]["contours"].endswith("s0.geojson")
    assert facts[0]["tissue_share"] == pytest.approx(128**2 / 320**2, abs=0.001)


def test_a_selector_that_states_no_tissue_gets_no_outline(marked):
    found = inspect_slide(marked, Corner(), OWNER, mpp=2.0)
    assert found.mask is None and found.facts["tissue_share"] is None
    assert found.facts["notes"] == ["the selector does not report where it finds tissue: no outline is drawn"]
    with Image.open(marked) as image:
        plain = np.asarray(image.resize((1200, 1200), Image.Resampling.BILINEAR))
    assert np.array_equal(found.picture[:, :1200], plain), "nothing is drawn on the left, and nothing dimmed"


def test_an_outlined_slide_keeps_its_outline_whatever_selects(marked, tmp_path):
    drawn = outline(tmp_path / "part.geojson", (0, 0, 750, 750))
    found = inspect_slide(marked, Corner(), OWNER, mpp=2.0, contours=drawn)
    assert found.facts["tissue_share"] == 0.25 and found.facts["notes"] == []


def test_tissue_of_another_shape_is_the_plugins_fault(marked):
    with pytest.raises(PluginError, match=r"of toys 1.0 returned bool \(3, 4\) from find_tissue\(\), not bool"):
        inspect_slide(marked, Oversized(), OWNER, mpp=2.0)


@pytest.fixture
def corner_archive(tmp_path, monkeypatch):
    """An archive whose engine uses a selector that states no tissue."""

    class Plugin:
        @hookimpl
        def register_selectors(self, register):
            register("corner", "corner_selector:Corner", "one patch at the top left")

    module = ModuleType("corner_selector")
    vars(module)["Corner"] = Corner
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with_corner = partial(plugins.load_registry, [("corner", Plugin())])
    monkeypatch.setattr(plugins, "load_registry", with_corner)
    config = tmp_path / "corner.toml"
    config.write_text(
        '[[engine]]\nname = "corners"\nselector = { use = "corner" }\nfeaturizer = { use = "colour-texture" }\n'
        'encoder = { use = "mean" }\nindex = { use = "cosine" }\n'
    )
    Archive.create(tmp_path / "archive", config.read_text()).close()
    return tmp_path / "archive"


def test_the_table_says_who_states_no_tissue(corner_archive, marked, slideseek, tmp_path):
    asked = ("inspect", marked, "-a", corner_archive, "--mpp", "2", "-o", tmp_path / "p.png")
    shown = slideseek(*asked)
    assert shown.code == 0 and "not reported by selector 'corner'" in shown.out
    assert slideseek(*asked, "--json").json["tissue_share"] is None


def test_there_is_no_outline_to_write_without_tissue(corner_archive, marked, slideseek, tmp_path):
    asked = ("inspect", marked, "-a", corner_archive, "--mpp", "2", "-o", tmp_path / "p.png")
    refused = slideseek(*asked, "--contours", tmp_path / "c.geojson")
    assert refused.code == 2 and "selector 'corner' does not report where it finds tissue" in refused.err
    assert not (tmp_path / "c.geojson").exists() and not (tmp_path / "p.png").exists()
