"""Running a network: threads that leave no trace, errors that surface, devices that must exist."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from slideseek.errors import UsageError
from slideseek.types import UInt8
from slideseek_components.featurizers.pixels import Preparation
from slideseek_components.featurizers.torch_batches import choose_device, run

CPU = torch.device("cpu")
KEEP = Preparation(0, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


class Probe(nn.Module):
    """Return the mean of each channel, and note what torch was told in the thread that ran."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, int, bool]] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append((len(x), torch.get_num_threads(), torch.is_inference_mode_enabled()))
        return x.mean((2, 3))


@pytest.fixture
def images() -> UInt8:
    return np.random.default_rng(0).integers(0, 256, (9, 8, 8, 3), dtype=np.uint8)


def test_each_image_is_its_own_pass_on_one_core(images: UInt8) -> None:
    probe = Probe()
    rows = run(probe, images, KEEP, 3, CPU, batch=4)
    np.testing.assert_allclose(rows, images.mean(axis=(1, 2)), rtol=1e-6)
    assert probe.seen == [(1, 1, True)] * 9


def test_no_images_give_no_rows(images: UInt8) -> None:
    probe = Probe()
    assert run(probe, images[:0], KEEP, 3, CPU, batch=4).shape == (0, 3)
    assert probe.seen == []


def test_the_rest_of_the_program_keeps_its_threads(images: UInt8) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        run(Probe(), images, KEEP, 3, CPU, batch=1)
        assert torch.get_num_threads() == 3
        asked: list[int] = []
        later = threading.Thread(target=lambda: asked.append(torch.get_num_threads()))
        later.start()
        later.join()
        assert asked == [3]
    finally:
        torch.set_num_threads(before)


def test_calls_at_the_same_time_do_not_disturb_each_other(images: UInt8) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        probes = [Probe() for _ in range(6)]
        with ThreadPoolExecutor(3) as pool:
            results = list(pool.map(lambda probe: run(probe, images, KEEP, 3, CPU, batch=1), probes))
        for rows, probe in zip(results, probes, strict=True):
            np.testing.assert_array_equal(rows, results[0])
            assert {threads for _, threads, _ in probe.seen} == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_an_error_in_the_network_surfaces(images: UInt8) -> None:
    class Failing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise RuntimeError("no memory left")

    with pytest.raises(RuntimeError, match="no memory left"):
        run(Failing(), images, KEEP, 3, CPU, batch=1)


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == CPU
    with pytest.raises(UsageError, match="device 'cuda' is not available") as caught:
        choose_device("cuda")
    assert "cpu" in caught.value.fix
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto").type == "cuda"
