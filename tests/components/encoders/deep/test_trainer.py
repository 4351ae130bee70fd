"""Training: reproducible, resumable after kill -9, stopped early on other patients, sparse where asked."""

import csv
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from slideseek.errors import DamagedError, SlideseekError
from slideseek.interfaces import Checkpointed, implements
from slideseek.types import Bag
from slideseek_components.encoders.deep.trainer import Trainer
from slideseek_components.encoders.deep_fv import DeepFisherVector
from slideseek_components.encoders.deep_sbfv import DeepSparseBinaryFisherVector
from slideseek_components.encoders.deep_sfv import DeepSparseFisherVector

SMALL: dict[str, Any] = {"hidden": (8, 6), "latent": 3, "sites": 0, "labels": 2, "batch_size": 16, "standardise": True}


def archive(count=8, width=5, seed=0):
    rng = np.random.default_rng(seed)
    bags = []
    for i in range(count):
        features = rng.normal(i % 2, 1, size=(12, width)).astype(np.float32)
        bags.append(Bag(f"s{i}", features, np.zeros((12, 2), dtype=np.int32)))
    return bags, ["xy"[i % 2] for i in range(count)], [f"p{i // 2}" for i in range(count)]


def weights(encoder):
    return b"".join(t.numpy().tobytes() for t in encoder.model_.network.state_dict().values())


def trained(folder=None, kind=DeepSparseBinaryFisherVector, **options):
    encoder = (
        kind(**(SMALL | {"epochs": 4, "bits": 20} | options))
        if kind is DeepSparseBinaryFisherVector
        else kind(**(SMALL | {"epochs": 4} | options))
    )
    if folder is None:
        encoder.fit(*archive())
    else:
        encoder.fit_in(folder, *archive())
    return encoder


def test_same_seed_same_bits_and_no_trace_in_global_state():
    torch.manual_seed(1)
    before = torch.random.get_rng_state(), torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    first = trained()
    after = torch.random.get_rng_state(), torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    assert torch.equal(before[0], after[0]) and before[1:] == after[1:]
    torch.manual_seed(99)
    torch.set_num_threads(2)
    try:
        assert weights(trained()) == weights(first) != weights(trained(seed=1))
    finally:
        torch.set_num_threads(before[1])


class StopError(Exception):
    pass


@pytest.mark.parametrize("stop_after", [1, 2, 3])
def test_resumes_with_the_same_bits(tmp_path, stop_after):
    options: dict[str, Any] = {"schedule": "cosine", "validation": 0.3, "patience": 3, "kl_warmup": 2}
    wanted = trained(**options)

    def interrupt(row):
        if row["epoch"] == stop_after:
            raise StopError

    with pytest.raises(StopError):
        encoder = DeepSparseBinaryFisherVector(**SMALL, epochs=4, bits=20, **options)
        bags, labels, groups = archive()
        encoder.fit_in(tmp_path, bags, labels, groups, interrupt)
    resumed = trained(tmp_path, **options)
    assert weights(resumed) == weights(wanted)
    assert resumed.log_ == wanted.log_
    assert resumed.model_.kept[""].chosen.tolist() == wanted.model_.kept[""].chosen.tolist()
    assert implements(resumed, Checkpointed)


KILLER = """
import os, random, signal, sys, time
from pathlib import Path
import numpy as np
import torch._dynamo  # the first optimiser imports it, which takes seconds: once here, not in every child
from slideseek.types import Bag
from slideseek_components.encoders.deep_sbfv import DeepSparseBinaryFisherVector

def archive():
    rng = np.random.default_rng(0)
    xy = np.zeros((12, 2), np.int32)
    bags = [Bag(f"s{i}", rng.normal(i % 2, 1, size=(12, 5)).astype(np.float32), xy) for i in range(8)]
    return bags, ["xy"[i % 2] for i in range(8)], [f"p{i}" for i in range(8)]

def make():
    return DeepSparseBinaryFisherVector(hidden=(8, 6), latent=3, sites=0, labels=2, epochs=100, bits=20)

def bits(encoder):
    return b"".join(t.numpy().tobytes() for t in encoder.model_.network.state_dict().values())

def written():
    file = folder / "checkpoint.safetensors"
    return file.stat().st_mtime_ns if file.exists() else 0

def slowly(row, seen=[]):
    # After some epochs wait to be killed: on a busy machine the parent may come late.
    seen.append(row)
    time.sleep(0.005 if len(seen) < 8 else 600)

folder, dice, kills = Path(sys.argv[1]), random.Random(0), 0
while kills < 10:
    before = written()
    child = os.fork()
    if child == 0:
        make().fit_in(folder, *archive(), slowly)
        os._exit(0)
    while written() == before:
        time.sleep(0.001)
    time.sleep(0.03 * dice.random())
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    kills += os.WIFSIGNALED(status)
    if not os.WIFSIGNALED(status):
        sys.exit("training finished before it was killed ten times")
resumed, seen = make(), []
resumed.fit_in(folder, *archive(), lambda row: seen.append(row["epoch"]))
whole = make()
whole.fit(*archive())
print("same" if bits(resumed) == bits(whole) else "other", "resumed at", seen[0])
"""


@pytest.mark.slow
def test_ten_kills_change_no_bit(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLER, str(tmp_path)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("same"), done.stdout
    assert float(done.stdout.split()[-1]) > 1, "no checkpoint was ever resumed"


def test_checkpoints_of_another_run_are_refused(tmp_path):
    trained(tmp_path)
    with pytest.raises(SlideseekError, match="other options, slides"):
        trained(tmp_path, learning_rate=0.01)
    with pytest.raises(SlideseekError, match="other options, slides"):
        DeepSparseBinaryFisherVector(**SMALL, epochs=4, bits=20).fit_in(tmp_path, *archive(seed=1))
    data = (tmp_path / "checkpoint.safetensors").read_bytes()
    (tmp_path / "checkpoint.safetensors").write_bytes(data[:-10])
    with pytest.raises(DamagedError, match="delete it"):
        trained(tmp_path)


def test_the_log_has_a_row_an_epoch_with_losses_and_gradient_norm(tmp_path):
    encoder = trained(tmp_path, validation=0.3)
    rows = list(csv.DictReader((tmp_path / "training.csv").open()))
    assert [float(row["epoch"]) for row in rows] == [1, 2, 3, 4]
    assert {"loss", "reconstruction", "kl", "classification", "gradient_l1", "quantisation", "validation"} <= set(
        rows[0]
    )
    assert [float(row["gradient_l1"]) for row in rows] == [row["gradient_l1"] for row in encoder.log_]
    row = encoder.log_[0]
    whole = row["reconstruction"] + row["kl"] + row["classification"]
    assert row["loss"] == pytest.approx(whole + 1e-4 * (row["gradient_l1"] + row["quantisation"]), rel=1e-5)


def test_stops_early_and_takes_the_best_weights(tmp_path):
    options: dict[str, Any] = {"validation": 0.3, "learning_rate": 0.05, "epochs": 200}
    stopped = trained(tmp_path, patience=3, **options)
    losses = [row["validation"] for row in stopped.log_]
    assert len(losses) < 200 and int(np.argmin(losses)) == len(losses) - 4
    assert weights(trained(**(options | {"epochs": len(losses) - 3}))) == weights(stopped)


def test_schedule_and_warmup():
    rates = [row["learning_rate"] for row in trained(schedule="cosine", epochs=6).log_]
    assert rates == sorted(rates, reverse=True) and rates[-1] < 0.1 * rates[0]
    assert {row["learning_rate"] for row in trained().log_} == {1e-3}
    assert weights(trained(kl_warmup=3)) != weights(trained())


def test_divergence_is_named_and_leaves_no_model():
    encoder = DeepFisherVector(**(SMALL | {"standardise": False}), epochs=30, learning_rate=0.9)
    bags, labels, groups = archive()
    wild = [Bag(b.slide_id, b.features * np.float32(1e18), b.xy) for b in bags]
    with pytest.raises(SlideseekError, match="diverged"):
        encoder.fit(wild, labels, groups)
    assert encoder.model_ is None


def test_divergence_after_some_epochs_leaves_no_checkpoint_that_would_diverge_again(tmp_path, monkeypatch):
    done: list[bool] = []
    rate = Trainer._rate

    def explode(self, step):
        return 1e30 if done else rate(self, step)

    monkeypatch.setattr(Trainer, "_rate", explode)
    encoder = DeepFisherVector(**SMALL, epochs=5)
    bags, labels, groups = archive()
    checkpoint = tmp_path / "checkpoint.safetensors"
    with pytest.raises(SlideseekError, match="diverged in epoch 2"):
        encoder.fit_in(tmp_path, bags, labels, groups, lambda row: done.append(checkpoint.is_file()))
    assert done == [True] and encoder.model_ is None and not list(tmp_path.iterdir())


def test_weights_that_overflow_in_the_last_step_are_no_model(tmp_path, monkeypatch):
    """The loss of a step is known before its weights are: the last step of a run needs a look of its own."""
    step = torch.optim.Adam.step

    def spoil(self, *args, **options):
        step(self, *args, **options)
        with torch.no_grad():
            self.param_groups[0]["params"][0].fill_(torch.inf)

    monkeypatch.setattr(torch.optim.Adam, "step", spoil)
    encoder = DeepFisherVector(**(SMALL | {"epochs": 1, "batch_size": 100_000}))
    with pytest.raises(SlideseekError, match="diverged in epoch 1"):
        encoder.fit_in(tmp_path, *archive())
    assert encoder.model_ is None and not list(tmp_path.iterdir())


def real(shared_data):
    data = np.load(shared_data / "bags" / "musk1.npz")
    bags, labels = [], []
    for number in np.unique(data["bag"]):
        rows = data["bag"] == number
        features = data["x"][rows].astype(np.float32)
        bags.append(Bag(str(number), features, np.zeros((len(features), 2), dtype=np.int32)))
        labels.append(str(data["y"][rows][0]))
    return bags, labels, [bag.slide_id for bag in bags]


@pytest.mark.shared
def test_the_sparse_loss_lowers_the_gradient_and_empties_it_on_real_features(shared_data):
    bags, labels, groups = real(shared_data)
    options: dict[str, Any] = {
        "hidden": (32, 16),
        "latent": 8,
        "sites": 0,
        "labels": 2,
        "standardise": True,
        "clip": 5.0,
        "epochs": 30,
    }
    plain = DeepFisherVector(**options)
    sparse = DeepSparseFisherVector(**options, lambda_sparse=1e-2)
    shares, norms = [], []
    for encoder in (plain, sparse):
        encoder.fit(bags, labels, groups)
        gradients = np.abs([encoder.gradient(bag) for bag in bags[:20]])
        shares.append(float((gradients < 1e-3 * gradients.max()).mean()))
        norms.append(encoder.log_[-1]["gradient_l1"])
    assert norms[1] < 0.8 * norms[0]
    assert shares[1] > shares[0]
    assert all(math.isfinite(row["loss"]) for row in sparse.log_)
