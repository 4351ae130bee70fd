"""Reading weights: bounded before it is unpacked, checked before it is loaded."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

from slideseek.digests import sha256_file
from slideseek.errors import DamagedError, SlideseekError
from slideseek_components.featurizers.state_dicts import fill, read_state
from slideseek_components.featurizers.weight_files import check_sha256


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "small.pth"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("small/data/0", bytes(1_000_000))
    assert path.stat().st_size < 10_000
    with pytest.raises(SlideseekError, match="1,000,000 bytes, at most 10,000"):
        read_state(path, limit=10_000)


def test_a_network_takes_values_and_is_in_evaluation_mode() -> None:
    state = {"weight": torch.tensor([[1.0, 2.0]]), "bias": torch.tensor([3.0])}
    network = fill(lambda: nn.Linear(2, 1), state, "file")
    assert network(torch.tensor([[1.0, 1.0]])).item() == 6.0
    assert not network.training
    state["bias"] += 1
    assert network(torch.tensor([[1.0, 1.0]])).item() == 6.0, "the network owns its weights"


def test_half_precision_weights_are_widened() -> None:
    state = {"weight": torch.ones(1, 2, dtype=torch.float16), "bias": torch.zeros(1, dtype=torch.float16)}
    assert fill(lambda: nn.Linear(2, 1), state, "file").weight.dtype == torch.float32


def test_sha256_is_that_of_the_content(tmp_path: Path) -> None:
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_file(path) == known
    check_sha256(path, known, "fix")
    path.write_bytes(b"abd")
    with pytest.raises(DamagedError, match="ba7816bf8f01cfea"):
        check_sha256(path, known, "fix")
