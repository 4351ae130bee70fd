"""Configuration: what is read, and the one line a mistake gets."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from slideseek.config import ComponentConfig, default_config, make_component, parse_config, read_config, settings
from slideseek.engine import make_engine
from slideseek.errors import PluginError, UsageError
from slideseek.hookspecs import hookimpl
from slideseek.plugins import load_registry
from slideseek.types import Bag, Code, CodeSpec
from slideseek_apps.testing.option_descriptions import describe, describe_options


@dataclass
class Optioned:
    bits: int = 500
    share: float = 0.5
    on: bool = False
    mode: Literal["a", "b"] = "a"
    sizes: tuple[int, ...] = ()
    weights: Path | None = None
    batch: int = field(default=8, metadata={"affects_result": False})

    def __post_init__(self):
        if self.bits < 1:
            raise ValueError(f"bits: must be at least 1, not {self.bits}")

    def spec(self, width: int) -> CodeSpec:
        return CodeSpec("bits", self.bits)

    def encode(self, bag: Bag) -> Code:
        raise NotImplementedError("it is only made")


@dataclass
class Odd(Optioned):
    """A component whose author slipped in one way or another."""

    slip: Literal["", "exits", "crashes", "prints"] = ""
    # No option, so it need mean nothing.
    learnt_: "NowhereImported" = field(default=None, init=False)  # type: ignore[name-defined] # noqa: F821

    def __post_init__(self):
        if self.slip == "exits":
            raise SystemExit(4)
        if self.slip == "crashes":
            raise RuntimeError("no such device")
        if self.slip == "prints":
            print("hello")


@dataclass
class Unresolved(Optioned):
    window: "OnlyForTypeCheckers" = None  # type: ignore[name-defined] # noqa: F821 - what is tested


@dataclass
class Unwritable(Optioned):
    classes: set[str] = field(default_factory=lambda: {"a"})


@dataclass
class Demanding(Optioned):
    bits: int = field()


class Plugin:
    @hookimpl
    def register_encoders(self, register):
        register("optioned", f"{__name__}:Optioned", "options of every type")
        register("demanding", f"{__name__}:Demanding", "one required option")
        register("odd", f"{__name__}:Odd", "slips")
        register("unresolved", f"{__name__}:Unresolved", "an annotation that means nothing")
        register("unwritable", f"{__name__}:Unwritable", "a default that TOML does not know")


@pytest.fixture(scope="module")
def registry():
    import sys

    sys.modules.setdefault(__name__, sys.modules[Optioned.__module__])
    return load_registry(extra=[("test", Plugin())])


def make(registry, use="optioned", **options):
    return make_component(registry, ComponentConfig("encoder", use, options), "engine.e.encoder")


def engine_text(**changes):
    parts = {
        "selector": '{ use = "grid" }',
        "featurizer": '{ use = "colour-texture" }',
        "encoder": '{ use = "yottixel" }',
        "index": '{ use = "hamming" }',
        **changes,
    }
    return '[[engine]]\nname = "e"\n' + "\n".join(f"{key} = {value}" for key, value in parts.items() if value)


def test_default_configuration_makes_an_engine(registry):
    engine = make_engine(parse_config(default_config()).engine(), registry)
    assert str(engine.spec) == "sets of 1279 bits"


def test_values_of_every_type(registry):
    made = make(registry, bits=3, share=1, on=True, mode="b", sizes=[1, 2], weights="w.pth", batch=2)
    assert made == Optioned(3, 1.0, True, "b", (1, 2), Path("w.pth"), 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bist": 5}, "engine.e.encoder.bist: no option 'bist' in encoder 'optioned': did you mean 'bits'?"),
        ({"zzz": 5}, "engine.e.encoder.zzz: no option 'zzz' in encoder 'optioned': options: bits, share"),
        ({"bits": True}, "engine.e.encoder.bits: must be a valid integer, not true"),
        ({"bits": "5"}, 'engine.e.encoder.bits: must be a valid integer, not "5"'),
        ({"bits": 5.5}, "engine.e.encoder.bits: must be a valid integer"),
        ({"bits": 0}, "engine.e.encoder.bits: must be at least 1, not 0"),
        ({"on": 1}, "engine.e.encoder.on: must be a valid boolean, not 1"),
        ({"mode": "c"}, "engine.e.encoder.mode: must be 'a' or 'b', not \"c\""),
        ({"sizes": [1, "x"]}, "engine.e.encoder.sizes[1]: must be a valid integer"),
        ({"share": "half"}, "engine.e.encoder.share: must be a valid number"),
    ],
)
def test_a_wrong_option_names_key_value_and_way_out(registry, options, message):
    with pytest.raises(UsageError) as caught:
        make(registry, **options)
    assert str(caught.value).startswith(message)


def test_a_missing_required_option_is_named(registry):
    with pytest.raises(UsageError, match=r"engine.e.encoder.bits: encoder 'demanding' needs this option"):
        make(registry, "demanding")


@pytest.mark.parametrize(("slip", "message"), [("exits", "SystemExit: 4"), ("crashes", "RuntimeError: no such device")])
def test_a_component_that_cannot_be_made_names_key_and_owner(registry, slip, message):
    with pytest.raises(PluginError) as caught:
        make(registry, "odd", slip=slip)
    assert str(caught.value).startswith(f"engine.e.encoder: encoder 'odd' of test - cannot be created ({message})")


def test_what_a_component_prints_when_made_does_not_mix_with_results(registry, capsys):
    assert make(registry, "odd", slip="prints").bits == 500
    assert capsys.readouterr() == ("", "hello\n")


def test_an_annotation_that_means_nothing_is_named(registry):
    with pytest.raises(PluginError) as caught:
        make(registry, "unresolved")
    text = str(caught.value)
    assert text.startswith(
        "engine.e.encoder: class Unresolved: the annotation 'OnlyForTypeCheckers' of option 'window'"
    )
    assert "TYPE_CHECKING" in text
    with pytest.raises(PluginError, match="OnlyForTypeCheckers"):
        describe_options(Unresolved)


def test_a_description_tells_of_inherited_options():
    @dataclass
    class Base:
        """Be a base: not told of what inherits it.

        words: how many. seed: of the draw.

        Note: no option.
        """

        words: int = 3
        seed: int = 0

    @dataclass
    class Middle(Base):
        """Come between.

        intra: told by the class itself.
        """

        intra: bool = True

    @dataclass
    class Leaf(Middle):
        """Do it.

        intra: here it means something else.
        """

    assert describe(Leaf) == "Do it.\n\nintra: here it means something else.\n\nwords: how many. seed: of the draw."


def test_a_value_that_no_configuration_can_hold_is_named():
    with pytest.raises(PluginError, match=r"'unwritable': option 'classes' is \{'a'\}; .* cannot contain a set"):
        settings(Unwritable(), ComponentConfig("encoder", "unwritable", {}), no_parts)


def test_unknown_implementation(registry):
    config = parse_config(engine_text(encoder='{ use = "yotixel" }')).engine()
    with pytest.raises(PluginError, match=r"^engine.e.encoder: no encoder named 'yotixel': did you mean 'yottixel'"):
        make_engine(config, registry)


def test_an_index_that_refuses_the_codes(registry):
    config = parse_config(engine_text(index='{ use = "cosine" }')).engine()
    with pytest.raises(
        UsageError, match=r"engine.e.index: index 'cosine' does not accept the codes of encoder 'yottixel'"
    ):
        make_engine(config, registry)


def no_parts(part, config):
    raise AssertionError("none of these components has another inside")


def test_settings_leave_out_what_cannot_change_a_result():
    kept = settings(Optioned(weights=Path("a/b")), ComponentConfig("encoder", "optioned", {}), no_parts)
    assert kept == {
        "use": "optioned",
        "bits": 500,
        "share": 0.5,
        "on": False,
        "mode": "a",
        "sizes": [],
        "weights": "a/b",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = [", "not valid TOML"),
        ("", "no [[engine]] block"),
        ("[engin]\n", "unknown table 'engin': did you mean 'engine'?"),
        (engine_text(selector=""), "engine.e.selector: missing"),
        (engine_text(selector="3"), "engine.e.selector: 3"),
        (engine_text() + "\nencodr = 3", "engine.e: unknown key 'encodr': did you mean 'encoder'?"),
        (engine_text() + "\n" + engine_text(), "two engines are named 'e'"),
        ('[[engine]]\nname = "../x"', "name is '../x'"),
        ("[[engine]]\n", "name is None"),
    ],
)
def test_a_wrong_file_is_said_in_one_line(text, message):
    with pytest.raises(UsageError) as caught:
        parse_config(text)
    assert message in str(caught.value)


def test_a_component_may_be_given_by_name_alone():
    assert parse_config(engine_text(index='"hamming"')).engine().index.use == "hamming"


def test_engines_are_found_by_name():
    config = parse_config(engine_text())
    assert config.engine("e") is config.engine()
    with pytest.raises(UsageError, match="no engine named 'x'"):
        config.engine("x")


def test_unreadable_files(tmp_path):
    with pytest.raises(UsageError, match="cannot read"):
        read_config(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_config(tmp_path / "bad.toml")


@pytest.mark.parametrize(
    "text",
    ["a" + ".a" * 200_000 + " = 1", "x = " + "[" * 500_000, "[" + "a." * 100_000 + "a]", "x = 1\n" * 200_000],
    ids=["dotted key", "nested", "dotted table", "long"],
)
def test_a_configuration_that_would_take_gigabytes_is_refused(text):
    with pytest.raises(UsageError, match=r"slideseek\.toml (has more than|is nested too deeply|is not valid TOML)"):
        parse_config(text)
