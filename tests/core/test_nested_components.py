"""Components inside components: created from tables, checked, and part of the key of results."""

from dataclasses import dataclass

import numpy as np
import pytest

from slideseek.boundary import Owner
from slideseek.config import parse_config
from slideseek.engine import check_parts, make_engine, signature
from slideseek.errors import PluginError, UsageError
from slideseek.hookspecs import hookimpl
from slideseek.interfaces import Encoder, NeedsFeaturizer
from slideseek.plugins import load_registry
from slideseek.types import Bag, Code, CodeSpec
from slideseek_apps.testing.option_descriptions import describe_options
from slideseek_components.encoders.gmm_fv import GmmFisher
from slideseek_components.encoders.joined import Joined
from slideseek_components.encoders.mean import Mean

CONFIG = """
[[engine]]
name       = "e"
selector   = {{ use = "grid", size = 64, mpp = 1.0 }}
featurizer = {{ use = "colour-texture" }}
encoder    = {{ {encoder} }}
index      = {{ use = "cosine" }}
"""


@dataclass
class Halved(Encoder):
    """Half the code of another encoder."""

    of: Encoder

    def spec(self, width: int) -> CodeSpec:
        return self.of.spec(width)

    def encode(self, bag: Bag) -> Code:
        return Code(bag.slide_id, (self.of.encode(bag).rows / 2).astype(np.float32))


@dataclass
class SideBySide(Encoder):
    """The codes of several encoders, one after the other."""

    of: tuple[Encoder, ...]

    def spec(self, width: int) -> CodeSpec:
        return CodeSpec("float", sum(part.spec(width).width for part in self.of))

    def encode(self, bag: Bag) -> Code:
        return Code(bag.slide_id, np.concatenate([part.encode(bag).rows for part in self.of], axis=1))


class Plugin:
    @hookimpl
    def register_encoders(self, register):
        register("halved", f"{__name__}:Halved", "half of another code")
        register("side-by-side", f"{__name__}:SideBySide", "several codes")


@pytest.fixture(scope="module")
def registry():
    import sys

    sys.modules.setdefault(__name__, sys.modules[Halved.__module__])
    return load_registry(extra=[("nested", Plugin())])


def engine(registry, encoder):
    return make_engine(parse_config(CONFIG.format(encoder=encoder)).engine(), registry)


def bag(width):
    return Bag("a", np.ones((2, width), np.float32), np.zeros((2, 2), np.int32))


def test_one_inside_another(registry):
    made = engine(registry, 'use = "halved", of = { use = "mean", l2 = true }')
    plain = engine(registry, 'use = "mean", l2 = true')
    one = bag(made.featurizer.width)
    assert np.array_equal(made.encode(one).rows, plain.encode(one).rows / 2)
    assert made.resolved.settings["encoder"]["of"] == plain.resolved.settings["encoder"]


def test_several_and_nested_twice(registry):
    made = engine(registry, 'use = "side-by-side", of = ["max", { use = "halved", of = "mean" }]')
    width = made.featurizer.width
    assert made.spec == CodeSpec("float", 2 * width) and made.encode(bag(width)).rows.shape == (1, 2 * width)
    inner = made.resolved.settings["encoder"]["of"]
    assert [part["use"] for part in inner] == ["max", "halved"] and inner[1]["of"]["use"] == "mean"


def test_options_of_the_inner_one_are_part_of_the_key(registry):
    digests = {
        engine(registry, f'use = "halved", of = {{ use = "mean", l2 = {flag} }}').encoder_digest
        for flag in ("true", "false")
    }
    assert len(digests) == 2


def test_an_inner_plugin_that_changes_its_version_changes_the_signature(registry):
    config = parse_config(CONFIG.format(encoder='use = "side-by-side", of = ["mean"]')).engine()
    before = signature(config, registry)
    newer = load_registry(extra=[("nested", Plugin()), ("other", Plugin())], disabled=["nested"])
    assert signature(config, newer) != before


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        ('use = "halved"', r"engine\.e\.encoder\.of: encoder 'halved' needs this option"),
        ('use = "halved", of = 3', r"engine\.e\.encoder\.of: 3: write of = \{ use"),
        (
            'use = "halved", of = { use = "meen" }',
            r"engine\.e\.encoder\.of: no encoder named 'meen': did you mean 'mean'",
        ),
        ('use = "halved", of = { use = "mean", l3 = 1 }', r"engine\.e\.encoder\.of\.l3: no option 'l3'"),
        ('use = "side-by-side", of = []', r"engine\.e\.encoder\.of: must be an array of encoder tables"),
        ('use = "side-by-side", of = ["mean", "cosine"]', r"engine\.e\.encoder\.of\[1\]: no encoder named 'cosine'"),
    ],
)
def test_errors_name_the_place(registry, encoder, message):
    with pytest.raises((UsageError, PluginError), match=message):
        engine(registry, encoder)


def test_the_table_of_options_says_what_goes_in():
    assert [option.type for option in (*describe_options(Halved), *describe_options(SideBySide))] == [
        "encoder table",
        "array of encoder tables",
    ]


@dataclass
class ColourOnly(NeedsFeaturizer):
    """An encoder for the features of one featurizer."""

    @property
    def featurizers(self):
        return ("colour-texture",)

    def spec(self, width: int) -> CodeSpec:
        return CodeSpec("float", width)

    def encode(self, bag: Bag) -> Code:
        return Code(bag.slide_id, bag.features.mean(axis=0, keepdims=True))


def test_a_part_needs_its_featurizer_like_the_whole():
    owner = Owner("encoder", "halved", "toys 1.0")
    for features in (("colour-texture",), ()):
        check_parts(Halved(ColourOnly()), features, owner, "engine.e.encoder")
    for encoder in (ColourOnly(), Halved(ColourOnly()), SideBySide((Mean(), Halved(ColourOnly())))):
        with pytest.raises(UsageError, match=r"^engine.e.encoder.*needs features of colour-texture, not of 'other'"):
            check_parts(encoder, ("other",), owner, "engine.e.encoder")


def test_a_part_that_learns_needs_a_whole_that_fits_it():
    owner = Owner("encoder", "halved", "toys 1.0")
    with pytest.raises(UsageError, match=r"^e.of: GmmFisher has to be fitted, and encoder 'halved' of toys 1.0 does"):
        check_parts(Halved(GmmFisher()), (), owner, "e")
    check_parts(Joined(of=(Mean(), GmmFisher())), (), owner, "e")
