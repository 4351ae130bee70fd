"""Run a torch network on many images; each row depends only on its own image, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from slideseek.errors import UsageError
from slideseek.types import Float32, UInt8
from slideseek_components.featurizers.run_options import Device
from slideseek_components.single_core import single_core_pool

Network = TypeVar("Network", bound=nn.Module)


def choose_device(name: Device) -> torch.device:
    """Return the device `name` stands for; `auto` is the first of cuda, mps, cpu that is available."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(device for device in there if there[device]))
    if not there[name]:
        raise UsageError(f"device {name!r} is not available to torch here", "use device = 'auto' or 'cpu'")
    return torch.device(name)


def place(network: Network, device: torch.device) -> Network:
    """Move a network to the device, its weights laid out channels last: the faster layout for convolutions."""
    network.to(device)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing from torch's annotations
    return network


def run(
    network: Callable[[Tensor], Tensor],
    images: UInt8,
    prepare: Callable[[UInt8], Float32],
    width: int,
    device: torch.device,
    batch: int,
) -> Float32:
    """Return float32 (n, width): the output of `network` for the n prepared images.

    network: in evaluation mode, on `device`, from (b, 3, side, side) to (b, width).

    On a CPU every image is its own pass on one core, and the cores work on different images. Convolution kernels are
    chosen by batch size and thread count and differ in the last bits; single-image passes cost little. On other
    devices `batch` is the number of images per pass, without this guarantee.
    """
    rows = np.empty((len(images), width), dtype=np.float32)
    on_cpu = device.type == "cpu"
    step = 1 if on_cpu else batch

    def forward(start: int) -> None:
        prepared = np.stack([prepare(image).transpose(1, 2, 0) for image in images[start : start + step]])
        pixels = torch.from_numpy(prepared).permute(0, 3, 1, 2).to(device)
        with torch.inference_mode():
            output = network(pixels)
        rows[start : start + step] = output.float().cpu().numpy()

    starts = range(0, len(images), step)
    workers = min(torch.get_num_threads(), len(starts)) if on_cpu else 1
    if workers > 0:
        _run_all(forward, starts, workers, on_cpu)
    return rows


def _run_all(forward: Callable[[int], None], starts: Iterable[int], workers: int, on_cpu: bool) -> None:
    if not on_cpu:
        for start in starts:
            forward(start)
        return
    with single_core_pool(workers, "featurize") as pool:
        for _ in pool.map(forward, starts):
            pass
