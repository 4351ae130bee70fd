"""Where networks run, and when half the precision is allowed."""

import threading
from typing import Any

import numpy as np
import pytest
import torch

from slideseek.errors import SlideseekError, UsageError
from slideseek.types import Bag
from slideseek_components.encoders.deep.device import reproducible, resolve
from slideseek_components.encoders.deep_bfv import DeepBinaryFisherVector
from slideseek_components.encoders.deep_fv import DeepFisherVector
from slideseek_components.encoders.deep_sfv import DeepSparseFisherVector

SMALL: dict[str, Any] = {"hidden": (6,), "latent": 3, "sites": 0, "labels": 0, "epochs": 1}


def have(monkeypatch, cuda, mps):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


def training():
    rng = np.random.default_rng(0)
    xy = np.zeros((7, 2), dtype=np.int32)
    return [Bag(f"s{i}", rng.normal(size=(7, 5)).astype(np.float32), xy) for i in range(3)], ["x"] * 3, list("abc")


@pytest.mark.parametrize(
    ("cuda", "mps", "wanted"),
    [(True, True, "cuda"), (True, False, "cuda"), (False, True, "mps"), (False, False, "cpu")],
)
def test_auto_takes_the_fastest_there_is(monkeypatch, cuda, mps, wanted):
    have(monkeypatch, cuda, mps)
    assert resolve("auto").type == wanted
    assert resolve("cpu").type == "cpu"


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_device_that_is_not_there_is_named(monkeypatch, device):
    have(monkeypatch, cuda=False, mps=False)
    with pytest.raises(UsageError, match=f"'{device}' is not available"):
        resolve(device)
    have(monkeypatch, cuda=True, mps=True)
    assert resolve(device).type == device


def test_device_decides_no_result_and_nothing_is_fitted_where_it_is_missing(monkeypatch, tmp_path):
    have(monkeypatch, cuda=False, mps=False)
    encoder = DeepFisherVector(device="cuda", **SMALL)
    with pytest.raises(UsageError, match="'cuda' is not available"):
        encoder.fit_in(tmp_path, *training())
    assert encoder.model_ is None and not list(tmp_path.iterdir())
    auto, cpu = DeepFisherVector(**SMALL), DeepFisherVector(device="cpu", **SMALL)
    for each in (auto, cpu):
        each.fit(*training())
    slide = training()[0][0]
    assert auto.encode(slide).rows.tobytes() == cpu.encode(slide).rows.tobytes()


def test_float64_is_refused_on_mps_before_it_fails_there(monkeypatch):
    encoder = DeepFisherVector(precision="float64", device="cpu", **SMALL)
    encoder.fit(*training())
    have(monkeypatch, cuda=False, mps=True)
    encoder.device, encoder.coder_ = "mps", None
    with pytest.raises(SlideseekError, match="does not exist on MPS"):
        encoder.encode(training()[0][0])


@pytest.mark.parametrize(
    "make",
    [lambda: DeepSparseFisherVector(amp=True, **SMALL), lambda: DeepBinaryFisherVector(amp=True, **SMALL)],
)
def test_mixed_precision_is_refused_for_second_derivatives(make):
    with pytest.raises(ValueError, match="amp"):
        make()


@pytest.mark.parametrize("mps", [False, True])
def test_mixed_precision_is_refused_off_cuda(monkeypatch, mps):
    have(monkeypatch, cuda=False, mps=mps)
    encoder = DeepFisherVector(amp=True, **SMALL)
    with pytest.raises(SlideseekError, match="amp"):
        encoder.fit(*training())
    assert encoder.model_ is None


def test_codes_never_use_mixed_precision(monkeypatch):
    """Neither an autocast block of the caller nor the `amp` option reaches the passes that make codes."""
    encoder = DeepFisherVector(device="cpu", **SMALL)
    encoder.fit(*training())
    slide = training()[0][0]
    plain = encoder.encode(slide).rows.tobytes()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert encoder.encode(slide).rows.tobytes() == plain
    encoder.amp = True
    assert encoder.encode(slide).rows.tobytes() == plain


def test_an_autocast_block_of_the_caller_does_not_change_training():
    plain, inside = (DeepFisherVector(device="cpu", **SMALL) for _ in range(2))
    plain.fit(*training())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside.fit(*training())
    assert plain.model_ is not None and inside.model_ is not None
    for a, b in zip(plain.model_.network.parameters(), inside.model_.network.parameters()):
        assert torch.equal(a, b)


def test_denormal_numbers_count_whatever_the_caller_has_set():
    def flushed():
        return bool(torch.tensor([1e-40]).mul_(1) == 0)

    if not torch.set_flush_denormal(True):
        pytest.skip("this processor always counts them")
    try:
        with reproducible(1):
            assert not flushed()
        assert flushed()
    finally:
        torch.set_flush_denormal(False)
    with reproducible(1):
        pass
    assert not flushed()


def test_python_threads_do_not_put_back_each_others_settings():
    entered, leave = threading.Event(), threading.Event()
    seen: list[Any] = []

    def first():
        with reproducible(1):
            entered.set()
            leave.wait(60)

    def second():
        entered.wait(60)
        with reproducible(1):
            runner.join(60)
            seen.append((torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()))

    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    runner, other = threading.Thread(target=first), threading.Thread(target=second)
    runner.start()
    other.start()
    assert entered.wait(60)
    # Long enough for a second one that does not wait its turn to come in.
    other.join(0.2)
    leave.set()
    other.join(60)
    assert seen == [(1, True)]
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == before


def test_settings_are_put_back_after_an_error():
    def settings():
        found = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
        return *found, torch.get_float32_matmul_precision()

    first = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        before = settings()
        with pytest.raises(RuntimeError, match="stop"), reproducible(before[0] + 1):
            assert settings() == (before[0] + 1, True, "highest")
            raise RuntimeError("stop")
        assert settings() == before
    finally:
        torch.set_float32_matmul_precision(first)
