"""Every bundled component passes every check of its kind.

Components are found through the registry, as a user's are. What a component cannot be made without is in `OPTIONS`.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slideseek.interfaces import CAPABILITIES
from slideseek.plugins import REQUIRED_KINDS, Registration, load_registry, own_members
from slideseek_apps.testing import (
    Check,
    encoder_checks,
    featurizer_checks,
    index_checks,
    reranker_checks,
    selector_checks,
)
from slideseek_components.featurizers.colour_texture import ColourTexture

CHECKS: dict[str, Callable[[], tuple[Check, ...]]] = {
    "selector": selector_checks,
    "featurizer": featurizer_checks,
    "encoder": encoder_checks,
    "index": index_checks,
    "reranker": reranker_checks,
}

REGISTRY = load_registry()
BUNDLED = [entry for entry in REGISTRY.registrations() if entry.distribution == "slideseek"]

# Conformance depends neither on how long a network is trained nor on its width, so every component with these options
# trains a narrow one briefly, which still has more gradients than a code of deep-sbfv has bits.
BRIEF = {"epochs": 2, "hidden": (64, 32), "latent": 8}


def need_extra(extra: str, module: str) -> None:
    """Skip the test where an extra is not installed; `module` is looked for, not imported."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"the extra {extra!r} is not installed")


def densenet_weights(folder: Path) -> dict[str, Any]:
    """Draw weights for DenseNet-121: the published ones are the user's to get."""
    import torch

    from slideseek_components.featurizers.densenet_network import DenseNet121

    torch.manual_seed(0)
    torch.save(DenseNet121(last_relu=True).state_dict(), folder / "densenet121.pth")
    return {"weights": folder / "densenet121.pth"}


def onnx_weights(folder: Path) -> dict[str, Any]:
    """Write the smallest network that looks at pixels: one convolution, averaged."""
    import numpy as np

    need_extra("onnx", "onnxruntime")
    onnx = pytest.importorskip("onnx", reason="onnx, which writes the model file, is not installed")
    kernel = np.random.default_rng(0).normal(size=(8, 3, 3, 3)).astype(np.float32)
    floats = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Conv", ["pixels", "kernel"], ["maps"]),
            onnx.helper.make_node("GlobalAveragePool", ["maps"], ["features"]),
        ],
        "one-convolution",
        [onnx.helper.make_tensor_value_info("pixels", floats, ["n", 3, "side", "side"])],
        [onnx.helper.make_tensor_value_info("features", floats, ["n", 8, 1, 1])],
        [onnx.numpy_helper.from_array(kernel, "kernel")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save_model(model, folder / "model.onnx")
    return {"weights": folder / "model.onnx"}


def timm_weights(folder: Path) -> dict[str, Any]:
    """Draw weights for a small network of timm."""
    need_extra("timm", "timm")
    import torch

    from slideseek_components.featurizers.timm_import import import_timm

    torch.manual_seed(0)
    torch.save(import_timm().create_model("resnet10t").state_dict(), folder / "resnet10t.pth")
    return {"model": "resnet10t", "weights": folder / "resnet10t.pth"}


def clip_weights(folder: Path) -> dict[str, Any]:
    """Draw weights for a small CLIP, which the package lazyslide-models loads as its model PLIP."""
    need_extra("lazyslide", "lazyslide_models")
    from bench.text_search import train_clip

    return {"model": "plip", "licence": "Non-commercial", "weights": train_clip(folder, steps=0)}


OPTIONS: dict[tuple[str, str], Callable[[Path], dict[str, Any]]] = {
    ("featurizer", "densenet121"): densenet_weights,
    ("featurizer", "kimianet"): densenet_weights,
    ("featurizer", "onnx"): onnx_weights,
    ("featurizer", "timm"): timm_weights,
    ("featurizer", "lazyslide"): clip_weights,
    ("featurizer", "lazyslide-text"): clip_weights,
    ("featurizer", "macenko"): lambda folder: {"of": ColourTexture()},
    ("index", "lance"): lambda folder: {"uri": str(folder)},
}

# Components that stand for results made elsewhere: they can do nothing themselves, which their own tests show.
# Slide encoders take features of one width only: tests/components/featurizers/test_lazyslide_model.py runs the checks.
STAND_INS: set[tuple[str, str]] = {(kind, "imported") for kind in ("selector", "featurizer", "encoder")}
STAND_INS |= {("encoder", "lazyslide"), ("encoder", "lazyslide-text")}

# Networks of millions of weights, and a server that makes a collection: a check takes a second or two.
LARGE: set[tuple[str, str]] = {
    ("featurizer", name)
    for name in (
        "densenet121",
        "kimianet",
        "timm",
        "efficientnet-lite0",
        "efficientnet-lite2",
        "lazyslide",
        "lazyslide-text",
    )
} | {("index", "milvus")}

# Components that stand on an extra: without it they cannot be made here.
EXTRAS: dict[tuple[str, str], tuple[str, str]] = {
    ("index", "annoy"): ("annoy", "annoy"),
    ("index", "pgvector"): ("pgvector", "psycopg"),
    ("index", "lance"): ("lance", "lancedb"),
    ("index", "milvus"): ("milvus", "pymilvus"),
}


def on_two_servers(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Start two PostgreSQL servers."""
    one, two = request.getfixturevalue("postgres")
    os.environ.update(PG_ONE=one.conninfo(), PG_TWO=two.conninfo())
    return {"shards": ("PG_ONE", "PG_TWO")}


def on_milvus(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Start a Milvus server."""
    os.environ["KIT_MILVUS"] = request.getfixturevalue("milvus")
    return {"server": "KIT_MILVUS", "seconds": 20.0}


# Components that need a server, which is started when the first check of it runs.
SERVED: dict[tuple[str, str], Callable[[pytest.FixtureRequest], dict[str, Any]]] = {
    ("index", "pgvector"): on_two_servers,
    ("index", "milvus"): on_milvus,
}


@pytest.fixture(scope="session")
def options(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Callable[[Registration, type], dict[str, Any]]:
    """Return a function from a component to the options it is made with; files are written once a session."""
    made: dict[tuple[str, str], dict[str, Any]] = {}

    def options_of(entry: Registration, loaded: type) -> dict[str, Any]:
        key = (entry.kind, entry.name)
        if key not in made:
            made[key] = OPTIONS[key](tmp_path_factory.mktemp(entry.name)) if key in OPTIONS else {}
            made[key] |= SERVED[key](request) if key in SERVED else {}
        fields = {field.name for field in dataclasses.fields(loaded)}
        return made[key] | {name: value for name, value in BRIEF.items() if name in fields}

    return options_of


@pytest.mark.parametrize(
    ("entry", "check"),
    [
        pytest.param(
            entry,
            check,
            id=f"{entry.kind}-{entry.name}-{check.__name__}",
            marks=[pytest.mark.slow] if (entry.kind, entry.name) in LARGE else [],
        )
        for entry in BUNDLED
        if (entry.kind, entry.name) not in STAND_INS
        for check in CHECKS[entry.kind]()
    ],
)
def test_bundled(entry: Registration, check: Check, options: Callable[[Registration, type], dict[str, Any]]) -> None:
    if extra := EXTRAS.get((entry.kind, entry.name)):
        need_extra(*extra)
    loaded = REGISTRY.load(entry.kind, entry.name)
    given = options(entry, loaded)
    check(lambda: loaded(**given))


@pytest.mark.parametrize("entry", BUNDLED, ids=lambda e: f"{e.kind}-{e.name}")
def test_capabilities_are_named_as_base_classes(entry: Registration) -> None:
    """A reader sees at the class what core may ask of it, and that a release does not recompute an archive."""
    if extra := EXTRAS.get((entry.kind, entry.name)):
        need_extra(*extra)
    loaded = REGISTRY.load(entry.kind, entry.name)
    for protocol in CAPABILITIES[entry.kind]:
        provided = all(
            any(name in vars(base) for base in loaded.__mro__ if not getattr(base, "_is_protocol", False))
            for name in own_members(protocol)
        )
        assert provided == (protocol in loaded.__mro__), protocol
    assert isinstance(loaded.code_revision, int)


def test_every_kind_is_bundled() -> None:
    assert {entry.kind for entry in BUNDLED} >= set(REQUIRED_KINDS)


def test_nothing_bundled_is_broken_or_doubled() -> None:
    assert REGISTRY.broken == ()
    assert len({(entry.kind, entry.name) for entry in BUNDLED}) == len(BUNDLED)


def test_options_are_of_bundled_components() -> None:
    assert set(OPTIONS) | STAND_INS | LARGE <= {(entry.kind, entry.name) for entry in BUNDLED}
