"""Results folders by the contract, made of simulated engines."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slideseek_apps.bench.ranked_lists import QueryHits, RankedHit, write_hits

SITES = {
    "colon": ("normal", "adenoma", "carcinoma"),
    "lung": ("normal", "LUAD", "LUSC"),
    "skin": ("naevus", "melanoma"),
}


class Simulation:
    """An archive of slides, and cells of engines of a given skill: the chance that a hit has the query's label."""

    def __init__(self, folder: Path, patients: int = 48) -> None:
        self.folder = folder
        rng = np.random.default_rng(7)
        sites = sorted(SITES)
        self.slides: list[tuple[str, str, str, str, str]] = []
        for patient in range(patients):
            site = sites[patient % len(sites)]
            label = str(rng.choice(SITES[site]))
            for slide in range(int(rng.integers(1, 4))):
                self.slides.append((f"s{patient:02d}-{slide}", f"p{patient:02d}", site, label, f"C{rng.integers(4)}"))

    def retrieval(
        self,
        name: str,
        skill: float,
        *,
        engine: str = "",
        seed: int = 0,
        mode: str = "vertical",
        k: int = 5,
        **more: Any,
    ) -> None:
        """Write a retrieval cell. more: what else its record holds, over the defaults."""
        # the noise of an engine comes from its name, so that seeds differ and a name is always the same
        rng = np.random.default_rng([seed, *name.encode(), len(mode)])
        queries = []
        for slide, patient, site, label, center in self.slides:
            target = label if mode == "vertical" else site
            near = [s for s in self.slides if s[1] != patient and (mode != "vertical" or s[2] == site)]
            right = [s for s in near if (s[3] if mode == "vertical" else s[2]) == target]
            wrong = [s for s in near if s not in right]
            rng.shuffle(right)
            rng.shuffle(wrong)
            hits = []
            for rank in range(min(k, len(near))):
                pool = right if (rng.random() < skill and right) or not wrong else wrong
                found = pool.pop()
                found_label = str(found[3] if mode == "vertical" else found[2])
                hits.append(RankedHit(str(found[0]), found_label, str(found[1]), str(found[4]), float(rank)))
            relevant = len(right) + sum(hit.label == target for hit in hits)
            queries.append(QueryHits(slide, target, tuple(hits), patient, center, site, relevant))
        write_hits(self._cell("retrieval", name, engine, seed, mode, k, more) / "hits.csv", queries)

    def classification(self, name: str, skill: float, seed: int = 0) -> None:
        """Write a classification cell of the sites."""
        rng = np.random.default_rng([seed, *name.encode()])
        rows = []
        for slide, patient, site, _, _ in self.slides:
            said = site if rng.random() < skill else str(rng.choice(sorted(SITES)))
            rows.append((slide, site, patient, "0", said))
        folder = self._cell("classification", name, "", seed, "horizontal", 0, {})
        write(folder / "predictions.csv", ("query_id", "query_label", "query_patient", "fold", "predicted"), rows)

    def training(self, name: str, sparsity: float, seed: int = 0) -> None:
        """Write a training cell whose gradient falls faster with more sparsity."""
        rng = np.random.default_rng([seed, *name.encode()])
        folder = self._cell("training", name, "", seed, "vertical", 0, {})
        rows = [(epoch, 90 * np.exp(-sparsity * epoch / 20) + 5, "") for epoch in range(1, 61)]
        write(folder / "training.csv", ("epoch", "gradient_l1", "quantisation"), rows)
        variance = np.sort(rng.random(4000))[::-1] ** 2
        np.savez(folder / "values.npz", values=rng.normal(size=4000) * variance / sparsity, variance=variance)

    def _cell(self, kind: str, name: str, engine: str, seed: int, mode: str, k: int, more: dict[str, Any]) -> Path:
        control = "-control" if more.get("control") else ""
        key = f"{kind}-{mode}-{name.encode().hex()}-{seed}{control}"
        folder = self.folder / "cells" / key
        folder.mkdir(parents=True)
        record = {
            "version": 1,
            "key": key,
            "kind": kind,
            "name": name,
            "engine": engine or name,
            "options": {},
            "sweep": {},
            "dataset": {
                "name": "simulated",
                "fingerprint": "0123456789abcdef" * 4,
                "slides": len(self.slides),
                "patients": len({s[1] for s in self.slides}),
            },
            "protocol": {
                "name": mode,
                "mode": mode,
                "target": "label" if mode == "vertical" else "site",
                "leave_out": "patient",
                "fit": "folds",
                "k": k,
            },
            "seed": seed,
            "control": False,
            "times": {"fit_s": 12.5, "encode_ms_per_slide": 3.25, "search_ms_median": 0.125},
            "bytes_per_slide": 625.0,
            "peak_memory_mb": 512.0,
            "versions": {"slideseek": "0.1.0"},
            "created": "2026-01-01T00:00:00+00:00",
        }
        (folder / "cell.json").write_text(json.dumps(record | more))
        return folder


def write(path: Path, header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])


@pytest.fixture
def simulation(tmp_path: Path) -> Callable[..., Simulation]:
    """Make an empty results folder: `simulation("name")`, then add cells to it."""
    return lambda name="results": Simulation(tmp_path / name)


@pytest.fixture(scope="session")
def full_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with every kind of cell, to be read only."""
    return fill(Simulation(tmp_path_factory.mktemp("bench") / "results"))


@pytest.fixture
def small_results(tmp_path: Path) -> Path:
    """A results folder with two engines."""
    made = Simulation(tmp_path / "results", patients=18)
    made.retrieval("yottixel", 0.8)
    made.retrieval("mean", 0.5)
    return made.folder


def fill(made: Simulation) -> Path:
    """Add every kind of cell, as the paper's tables and figures need them."""
    skills = {
        "yottixel": 0.62,
        "mean": 0.55,
        "c-gmm-fv": 0.66,
        "c-deep-fv": 0.7,
        "c-deep-sfv": 0.74,
        "c-deep-bfv": 0.73,
    }
    costs = {"yottixel": 40_000.0, "mean": 4096.0}
    for name, skill in skills.items():
        for seed in range(1 if name in costs else 3):
            made.retrieval(name, skill, seed=seed, bytes_per_slide=costs.get(name, 175_888.0))
    made.retrieval("mean", 0.8, mode="horizontal")
    made.retrieval("yottixel", 0.9, mode="horizontal")
    for value in (1e-5, 1e-4, 1e-3):
        for engine, option in (("c-deep-sfv", "lambda_sparse"), ("c-deep-bfv", "lambda_binary")):
            made.retrieval(f"{engine} {option}={value:g}", 0.7, engine=engine, sweep={option: value})
    for bits, skill in ((500, 0.6), (5000, 0.68), (40000, 0.75)):
        for engine, more in (("c-deep-bfv", 0.0), ("c-deep-sbfv", 0.04)):
            made.retrieval(
                f"{engine} bits={bits}",
                skill + more,
                engine=engine,
                sweep={"bits": bits},
                times={"fit_s": 20.0, "encode_ms_per_slide": 4.0, "search_ms_median": 0.02 + bits / 2e5},
                bytes_per_slide=bits / 8,
            )
    made.retrieval("mean", 0.3, control=True)
    made.classification("c-deep-sfv", 0.8)
    made.classification("yottixel", 0.7)
    made.training("c-deep-sfv", 3.0)
    made.training("c-deep-fv", 1.0)
    engines = "".join(f'[[engine]]\nname = "{name}"\n' for name in [*skills, "c-deep-sbfv"])
    (made.folder / "bench.toml").write_text(f'title = "Simulated engines"\n[[protocol]]\nname = "vertical"\n{engines}')
    return made.folder
