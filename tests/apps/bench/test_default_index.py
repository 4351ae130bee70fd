"""The index of an engine whose configuration names none: exact, of the right kind, bundled before others."""

import dataclasses

import pytest

from slideseek.config import make_component
from slideseek.errors import UsageError
from slideseek.hookspecs import hookimpl
from slideseek.interfaces import StatesExactness
from slideseek.plugins import load_registry
from slideseek.types import CodeSpec
from slideseek_apps.bench.default_index import default_index
from slideseek_components.indexes.cosine import Cosine
from slideseek_components.indexes.hamming import Hamming


@dataclasses.dataclass
class ForFloats(Cosine):
    """Exact, and takes floats only."""

    def refuses(self, spec: CodeSpec) -> str:
        return "" if spec.kind == "float" else "floats only"


@dataclasses.dataclass
class Approximate(ForFloats):
    exact = False


@dataclasses.dataclass
class NeedsAnOption(ForFloats):
    folder: str = dataclasses.field(kw_only=True)


@dataclasses.dataclass
class Crashes(ForFloats):
    def refuses(self, spec: CodeSpec) -> str:
        raise ZeroDivisionError


class Plugin:
    @hookimpl
    def register_indexes(self, register):
        for kind in (Approximate, Crashes, ForFloats, NeedsAnOption):
            register(kind.__name__, f"{__name__}:{kind.__name__}", "a test")
        register("gone", "no_such_module:Index", "a test")


def chosen(spec: CodeSpec, *plugins: tuple[str, object], disabled: tuple[str, ...] = ()) -> str:
    return default_index(load_registry(extra=plugins, disabled=disabled), spec, "engine.e.index").use


@pytest.mark.parametrize(
    ("spec", "index"),
    [
        (CodeSpec("bits", 12), "hamming"),
        (CodeSpec("bits", 12, many=True), "hamming"),
        (CodeSpec("float", 12), "cosine"),
        (CodeSpec("float", 12, many=True), "cosine"),
        (CodeSpec("sparse", 12), "sparse"),
        (CodeSpec("sparse", 12, many=True), "cosine"),
    ],
)
def test_each_kind_of_code_has_one(spec, index):
    assert chosen(spec) == index
    assert chosen(spec, ("more", Plugin())) == index, "an installed plugin changes no benchmark"


def test_of_other_plugins_only_exact_ones_that_can_be_made():
    plugins = ("more", Plugin())
    assert chosen(CodeSpec("float", 12), plugins, disabled=("components",)) == "ForFloats"
    with pytest.raises(UsageError, match=r"engine\.e\.index: no exact index takes codes of 12 bits"):
        chosen(CodeSpec("bits", 12), plugins, disabled=("components",))


def test_every_bundled_index_says_whether_it_is_exact():
    registry = load_registry()
    stated = {}
    for entry in registry.registrations("index"):
        loaded = registry.load("index", entry.name)
        assert isinstance(loaded(), StatesExactness)
        stated[entry.name] = loaded().exact
    assert {name for name, exact in stated.items() if not exact} == {"annoy", "faiss-binary"}
    assert {name for name, exact in stated.items() if exact} == {
        *("cosine", "hamming", "sparse"),
        *("lance", "milvus", "pgvector"),
    }


def test_it_is_made_with_its_default_options():
    registry = load_registry()
    config = default_index(registry, CodeSpec("bits", 12), "engine.e.index")
    assert make_component(registry, config, "engine.e.index") == Hamming()
