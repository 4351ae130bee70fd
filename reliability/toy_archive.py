"""Small archives that are built in a second: painted slides in the archive's own folder, so that copies are whole."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from slideseek.cli import main

STAGES = 'selector = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }\nfeaturizer = { use = "colour-texture" }'
CONFIG = f"""
[executor]
use = "local"
workers = 0

[[engine]]
name = "bars"
{STAGES}
encoder = {{ use = "yottixel" }}
index = {{ use = "hamming" }}

[[engine]]
name = "fitted"
{STAGES}
encoder = {{ use = "gmm-fv", components = 2 }}
index = {{ use = "cosine" }}
"""
"""An engine whose codes are bits, and one with a model; both from the same features."""

CONFIG_FILE = "slideseek.toml"
SLIDES = 8
"""Slides of a toy archive: two sites, two diagnoses, a patient each."""


def paint(path: Path, seed: int, side: int = 256) -> None:
    """Paint a stained-looking square on white: coarse texture for even seeds, fine texture for odd ones."""
    rng, step = np.random.default_rng(seed), 16 if seed % 2 == 0 else 4
    texture = np.kron(rng.random((side // step, side // step)), np.ones((step, step)))[..., None]
    image, inner = np.full((side, side, 3), 244.0), slice(side // 8, side - side // 8)
    painted = np.array([225.0, 150.0, 190.0]) * (1 - texture) + np.array([110.0, 60.0, 140.0]) * texture
    image[inner, inner] = painted[inner, inner]
    Image.fromarray(image.astype(np.uint8)).save(path)


def paint_slides(folder: Path, numbers: Iterable[int]) -> None:
    """Paint slides s0, s1, ... and a manifest of them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = ["slide_id,filename,case_id,primary_site,diagnosis,center,mpp,age"]
    for n in numbers:
        if not (folder / f"s{n}.png").exists():
            paint(folder / f"s{n}.png", n)
        rows.append(
            f"s{n},s{n}.png,p{n},{('colon', 'lung')[n // 2 % 2]},{('coarse', 'fine')[n % 2]},C{n % 3},1,{50 + n}"
        )
    (folder / "manifest.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Done:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def traceback(self) -> bool:
        """Whether the command ended in a bug."""
        return "Traceback (most recent call last)" in self.err

    @property
    def json(self) -> Any:
        """What it printed with --json."""
        return json.loads(self.out)


def command(*arguments: object) -> Done:
    """Run `slideseek` with some arguments in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


def warm(work: Path) -> None:
    """Import everything into this process: its children then have it."""
    make(work / "warm", 3)
    import slideseek_apps.doctor.repairing
    import slideseek_apps.interchange.import_command  # noqa: F401

    for step in (("search", "s0"), ("status",), ("compact",), ("verify",)):
        command(*step, "-a", work / "warm")


def make(root: Path, slides: int = SLIDES, built: bool = True) -> None:
    """Make an archive with slides in its own folder, and build it."""
    config = root.with_suffix(".toml")
    config.write_text(CONFIG, encoding="utf-8")
    steps: list[tuple[object, ...]] = [("init", root, "--config", config)]
    paint_slides(root / "slides", range(slides))
    steps.append(("add", root / "slides", "--manifest", root / "slides" / "manifest.csv", "-a", root))
    for step in (*steps, ("build", "-a", root)) if built else steps:
        if (done := command(*step)).code:
            raise RuntimeError(f"slideseek {step[0]}: {done.err}")
