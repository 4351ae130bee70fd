"""Read the weights of a torch network: bounded in size, never executed, checked against the network."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from slideseek.errors import SlideseekError, UsageError

State: TypeAlias = dict[str, Tensor]
Network = TypeVar("Network", bound=nn.Module)

SUFFIXES = (".pth", ".pt", ".bin", ".safetensors")


def read_state(path: Path, limit: int) -> State:
    """Return the tensors of a `.pth` or `.safetensors` file of at most `limit` bytes, on the CPU.

    A `.pth` is read with `weights_only=True`: it may contain tensors and plain containers; anything that would
    run code is rejected. A state dict nested under `state_dict`, `model_state_dict` or `model` is unwrapped.
    """
    size = path.stat().st_size
    if zipfile.is_zipfile(path):  # the usual container of a .pth: limit its unpacked size
        with zipfile.ZipFile(path) as archive:
            size = max(size, sum(entry.file_size for entry in archive.infolist()))
    if size > limit:
        raise SlideseekError(
            f"{path.name}: {size:,} bytes, at most {limit:,} are allowed for this network",
            "check that it is the right file",
        )
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path.name}: unknown weights format '{path.suffix}'", f"use one of {', '.join(SUFFIXES)}")
    try:
        if path.suffix == ".safetensors":
            loaded: object = load_file(path)
        else:
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise SlideseekError(
            f"{path.name}: contains more than tensors, and loading it would run code from the file",
            "use a file with only the state dict, preferably .safetensors",
        ) from error
    except (SafetensorError, RuntimeError, EOFError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise SlideseekError(f"{path.name}: not a readable weights file ({reason})", "download it again") from error
    return _tensors(loaded, path)


def _tensors(loaded: object, path: Path) -> State:
    for key in ("state_dict", "model_state_dict", "model"):
        if isinstance(loaded, Mapping) and isinstance(loaded.get(key), Mapping):
            loaded = loaded[key]
    if not isinstance(loaded, Mapping) or not loaded or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise SlideseekError(
            f"{path.name}: contains no state dict (names and tensors)", "save model.state_dict() instead"
        )
    return {str(name): value for name, value in loaded.items()}


def fill(build: Callable[[], Network], state: Mapping[str, Tensor], source: str) -> Network:
    """Build a network and load `state` into it after checking names, shapes and values; in evaluation mode.

    source: the name of the file, for messages. Batch counters from training may be missing.
    """
    with torch.device("meta"):  # allocate and draw no initial weights: they are replaced immediately
        network = build()
    wanted = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    needed = sorted(name for name in wanted if not name.endswith(".num_batches_tracked"))
    missing = [name for name in needed if name not in state]
    unknown = sorted(state.keys() - wanted.keys())
    shapes = [
        f"{name} is {tuple(state[name].shape)}, not {shape}"
        for name, shape in wanted.items()
        if name in state and tuple(state[name].shape) != shape
    ]
    problems = [
        f"{len(names)} {what}, such as {names[0]}"
        for what, names in (("tensors missing", missing), ("unknown tensors", unknown), ("wrong shapes", shapes))
        if names
    ]
    if problems:
        raise SlideseekError(
            f"{source}: does not fit {type(network).__name__} ({'; '.join(problems)})",
            "check that the file belongs to this network",
        )
    broken = [name for name in needed if not bool(torch.isfinite(state[name]).all())]
    if broken:
        raise SlideseekError(f"{source}: {broken[0]} has values that are not finite", "download the file again")
    network.to_empty(device="cpu").load_state_dict(state, strict=False)
    return network.eval()
