"""A small dataset for the runner's tests: two sites, two labels, patients with two slides, two centres."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slideseek.building.reporting import Reporter, SlideReport
from slideseek.plugins import KINDS, load_registry
from slideseek_apps.bench.config import parse_bench_config
from slideseek_apps.bench.datasets import load_dataset
from slideseek_apps.bench.runner import BenchRunner, BenchSummary


def write_toy_bags(path: Path, patients: int = 12, width: int = 8, split: bool = False) -> Path:
    """Write bags whose label moves the features; a patient has two slides, the first six slides are of centre c0."""
    rng = np.random.default_rng(0)
    rows: dict[str, list[str]] = {name: [] for name in ("slide_id", "patient", "site", "label", "center", "split")}
    features, owner = [], []
    for number in range(2 * patients):
        patient = number // 2
        label, site = patient % 2, patient // 2 % 2
        n = int(rng.integers(4, 8))
        move = np.zeros(width)
        move[0], move[1] = 3 * label, 3 * site
        features.append(rng.normal(size=(n, width)) + move)
        owner += [number] * n
        values = (f"s{number:02d}", f"p{patient:02d}", ("colon", "lung")[site], ("benign", "cancer")[label])
        for name, value in zip(rows, (*values, f"c{patient // 3 % 4}", "test" if patient % 3 == 0 else "train")):
            rows[name].append(value)
    if not split:
        del rows["split"]
    known: dict[str, Any] = {name: np.array(values) for name, values in rows.items()}
    np.savez(path, x=np.concatenate(features).astype(np.float32), bag=np.array(owner), **known)
    return path


@pytest.fixture
def toy_bags_file(tmp_path: Path) -> Path:
    """24 slides of 12 patients in one .npz."""
    return write_toy_bags(tmp_path / "toy.npz")


@pytest.fixture
def write_toys() -> Callable[..., Path]:
    """Write such a file: `write_toys(path, patients=12, split=False)`."""
    return write_toy_bags


class KeepReports(Reporter):
    """A reporter that keeps what it is given."""

    def __init__(self) -> None:
        self.reports: list[SlideReport] = []

    def slide(self, report: SlideReport) -> None:
        self.reports.append(report)


@pytest.fixture
def run_with(tmp_path: Path, toy_bags_file: Path) -> Callable[..., BenchSummary]:
    """Run one engine on the toys beside a plugin that is not installed: `run_with(plugin, encoder, index=None)`."""

    def run(plugin, encoder, index=None, control=False, **more) -> BenchSummary:
        registry = load_registry(extra=[("cheats", plugin)], kinds=KINDS)
        engine = {"name": "x", "encoder": encoder} | ({"index": index} if index else {})
        data = {"engine": [engine], "dataset": {"kind": "bags", "path": str(toy_bags_file)}} | more
        config = parse_bench_config(data, tmp_path, "test", registry)
        dataset = load_dataset(config.kind, config.dataset_options, tmp_path, registry)
        return BenchRunner(config, dataset, registry, tmp_path / "out", KeepReports()).run(control=control)

    return run
