"""The speed and memory report of the deep encoders runs, at sizes that say nothing about speed."""

import gc
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # `bench` is run from the root of the repository and is not installed

from bench import encoder_speed, training_memory  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def examples():
    return {preset: encoder_speed.fitted(preset, 300, 24, 8, 1) for preset in ("paper", "best")}


def test_the_loops_and_the_batched_gradient_agree(examples):
    import torch

    from slideseek_components.encoders.deep.slide_gradients import Gradients, SlideInput

    model = examples["paper"].model_
    slide = encoder_speed.make_bags(1, 5, 24)[0]
    x, site = torch.from_numpy(slide.features), torch.zeros(5).long()
    loops = [loop(model.network, x, site) for loop in (encoder_speed.per_patch_loop, encoder_speed.accumulating_loop)]
    gradients = Gradients(model.network, model.inputs, model.network.shape.layers())
    batched = next(gradients.means([SlideInput(slide.features, 0, gradients.wanted(None))]))
    for loop in loops:
        assert np.abs(batched - loop.numpy()).max() < 1e-6 * np.abs(batched).max()


def test_a_turn_is_timed_when_the_work_has_run_before():
    now, calls = [0.0], []

    def work(name, seconds):
        calls.append(name)
        now[0] += seconds + (10 if calls[-2:] != [name, name] else 0)

    works = {"a": lambda: work("a", 3), "b": lambda: work("b", 2)}
    assert encoder_speed.best_seconds(works, 2, lambda: now[0]) == {"a": 3, "b": 2}
    assert calls == ["a", "a", "b", "b"] * 2


def test_every_part_reports_its_targets(examples, capsys):
    slide = encoder_speed.make_bags(1, 5, 24)[0]
    targets = encoder_speed.extraction(examples["paper"], slide, 2, 2)
    encoder_speed.shared_passes(examples["paper"], 24, 1)
    for example in examples.values():
        targets += encoder_speed.short_codes(example, slide, 1)
    targets += encoder_speed.steps(24, 4, 1)
    targets += encoder_speed.memory(training_memory.Growth({30: 100 << 20, 3000: 105 << 20}))
    assert [target.limit for target in targets] == [30, 30, 1.5, 1.5, 1.5, 1.5, 2.6, 2.6, 2.6, 1.1]
    assert all(np.isfinite(target.found) and target.found > 0 for target in targets)
    printed = capsys.readouterr().out
    for line in (
        "batched, one core",
        "products of a pass alone, one core",
        "batched, 2 cores",
        "shared passes",
        "preset paper, bits, 300 entries",
        "preset best, bits, all of decoder",
        "SBFV",
        "105.0 MiB",
    ):
        assert line in printed


def test_short_codes_are_made_of_the_kept_entries(examples):
    slide = encoder_speed.make_bags(1, 5, 24)[0]
    for example in examples.values():
        works: dict[str, Any] = dict(encoder_speed.codes(example, slide))
        assert works["bits, kept"]().rows.tobytes() == example.encode(slide).rows.tobytes()
        assert works["floats, kept"]().rows.shape == (1, 300)
        size = example.settings_.shape(24).parameters()
        assert works["floats, whole"]().rows.shape == (1, size)
        assert sum(int(part.split()[-1]) for part in encoder_speed.layers_of(example, 24).split(", ")) == pytest.approx(
            300, abs=10
        )


def test_targets_say_met_or_missed():
    make = encoder_speed.Target
    assert make("x", 2.0, 2.5).met and not make("x", 2.0, 1.9).met
    assert make("x", 2.0, 1.9, most=True).met and not make("x", 2.0, 2.5, most=True).met
    assert str(make("x", 2.0, 1.9)) == "MISSED  x: 1.90, at least 2"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_peak_memory_is_seen(tmp_path):
    # Held for a while: memory is sampled, and a busy machine may sample late. What earlier tests left is freed first.
    gc.collect()

    def hold() -> None:
        held = np.ones(16 << 20)
        time.sleep(0.3)
        del held

    assert training_memory.peak_during(hold) > 100 << 20
    training_memory.write_bags(tmp_path, 6, 12, 60)
    bags = training_memory.FolderBags(sorted(tmp_path.glob("*.h5")))
    assert len(bags) == 10 and len(bags[2:5]) == 3 and bags[0].features.shape == (6, 12)
    command = [sys.executable, "-m", "bench.training_memory", str(tmp_path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout) > 0
