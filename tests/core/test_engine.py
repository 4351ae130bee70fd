"""An engine checks what its components promise, and names the one that breaks its promise."""

from dataclasses import dataclass

import numpy as np
import pytest

from slideseek.config import parse_config
from slideseek.engine import make_engine
from slideseek.errors import PluginError, UsageError
from slideseek.hookspecs import hookimpl
from slideseek.plugins import load_registry
from slideseek.types import Bag, Code, CodeSpec, Patches
from slideseek_apps.testing import toy_slide


@dataclass
class ToySelector:
    stranger: bool = False

    def select(self, slide):
        return Patches.at("somebody-else" if self.stranger else slide.id, np.array([[0, 0], [64, 0]]), 32, slide.mpp)


@dataclass
class ToyFeaturizer:
    shape: int = 3
    dtype: str = "float32"

    width = 3

    def featurize(self, images):
        return np.ones((len(images), self.shape), self.dtype)


@dataclass
class ToyEncoder:
    stranger: bool = False
    columns: int = 4
    rows: int = 1
    bits: bool = False

    def spec(self, width):
        return CodeSpec("float", 4)

    def encode(self, bag):
        rows = np.zeros((self.rows, self.columns), np.uint8 if self.bits else np.float32)
        return Code("somebody-else" if self.stranger else bag.slide_id, rows)


class Plugin:
    @hookimpl
    def register_selectors(self, register):
        register("toy", f"{__name__}:ToySelector", "two patches")

    @hookimpl
    def register_featurizers(self, register):
        register("toy", f"{__name__}:ToyFeaturizer", "ones")

    @hookimpl
    def register_encoders(self, register):
        register("toy", f"{__name__}:ToyEncoder", "zeros")


@pytest.fixture(scope="module")
def registry():
    import sys

    sys.modules.setdefault(__name__, sys.modules[ToySelector.__module__])
    return load_registry(extra=[("toys", Plugin())])


def engine(registry, selector="", featurizer="", encoder="", index="cosine"):
    parts = {"selector": selector, "featurizer": featurizer, "encoder": encoder}
    lines = [f'{kind} = {{ use = "toy"{options and ", " + options} }}' for kind, options in parts.items()]
    return make_engine(
        parse_config("\n".join(['[[engine]]\nname = "e"', *lines, f'index = "{index}"'])).engine(), registry
    )


def bag():
    return Bag("a", np.ones((2, 3), np.float32), np.zeros((2, 2), np.int32))


def test_components_that_keep_their_promises(registry):
    made = engine(registry)
    slide = toy_slide()
    patches = made.select(slide)
    features, notes = made.featurize(slide, patches, "colon")
    assert notes == []
    assert (features.slide_id, features.site, features.features.shape) == (slide.id, "colon", (2, 3))
    assert made.encode(features).slide_id == slide.id


def test_patches_of_another_slide(registry):
    with pytest.raises(PluginError, match="selector 'toy' of toys - returned patches of 'somebody-else'"):
        engine(registry, selector="stranger = true").select(toy_slide())


@pytest.mark.parametrize(
    ("options", "got"), [("shape = 4", r"float32 \(2, 4\)"), ('dtype = "float64"', r"float64 \(2, 3\)")]
)
def test_features_of_another_shape_or_type(registry, options, got):
    made = engine(registry, featurizer=options)
    slide = toy_slide()
    with pytest.raises(PluginError, match=rf"featurizer 'toy' of toys - returned {got}, not float32 \(2, 3\)"):
        made.featurize(slide, made.select(slide))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("columns = 5", "rows have 5 columns"),
        ("rows = 2", "2 rows, .* needs exactly one"),
        ("rows = 0", "the code has no rows"),
        ("bits = true", "rows are uint8"),
        ("stranger = true", "returned a code of 'somebody-else'"),
    ],
)
def test_codes_that_are_not_what_was_promised(registry, options, message):
    with pytest.raises(PluginError, match=f"encoder 'toy' .*{message}"):
        engine(registry, encoder=options).encode(bag())


def test_an_index_that_cannot_hold_the_codes(registry):
    with pytest.raises(
        UsageError, match=r"engine\.e\.index: index 'hamming' does not accept the codes of encoder 'toy'"
    ):
        engine(registry, index="hamming")


def test_settings_of_a_stage_name_all_that_decides_it_and_no_more(registry):
    plain, other = engine(registry), engine(registry, featurizer="shape = 4")
    assert plain.select_digest == other.select_digest
    assert plain.feature_digest != other.feature_digest
    assert plain.encoder_digest != other.encoder_digest
    assert plain.index_digest == other.index_digest
