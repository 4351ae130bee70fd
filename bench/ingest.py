"""CPU time of a build per slide, against the tree of before: `python -m bench.ingest [--before COMMIT] [--data DIR]`.

Two processes per row, one on this checkout and one on the files of COMMIT, take the same real slides through the same
fields on one core: open and select, read, compute features. They print CPU seconds per slide by part and keep the
patches and features, which are compared.

    paper     the fields of `init --preset paper`, which were the default at COMMIT; both trees select them
    default   the fields of the default engine; COMMIT has no fitted grid, so it selects from a grid with the same
              patches and then reads the fields that this checkout chose

Processes that decode slides are counted. CPU seconds differ from machine to machine; the ratio and the share of
selection are what counts.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BEFORE = "b66f7f6"
TICK = os.sysconf("SC_CLK_TCK")
"""Clock ticks per second, the unit of CPU time in /proc."""

PARTS = ("select", "read", "features")
FORMER = {
    ', most = 50, anchor = "tissue"': "",
    ", max_blur = 1.5": "",
    ', direction = "symmetric", centring = 0.9': "",
    '[executor]\nuse = "local"\n': "",
}
"""What the tree of before does not know in the default engine, and what stands for it there."""

STATED_MPP = {"kidney-HE-region": 0.25, "TCGA-CR-7395-01A-01-TS1_small": 0.25, "prostate-HE-6level": 0.5}
"""µm/px of files that state none, or a wrong one."""


def slides(data: Path) -> list[tuple[Path, float]]:
    """Return the real slides and µm/px for those whose file does not state it, else 0."""
    files = [*sorted((data / "slides-atlas").glob("*.tif")), *sorted((data / "slides-formats").glob("*.*"))]
    return [(file, STATED_MPP.get(file.stem, 0.0)) for file in files if file.suffix in (".tif", ".svs", ".tiff")]


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process, of its descendants, and of those that they have waited for (Linux).

    Slides are decoded in other processes, which the clock of this one does not count. To 10 ms for each of those.
    """
    parents, used = dict[int, int](), dict[int, int]()
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = file.read_text().rpartition(")")[2].split()  # a process may have any name
            parents[int(file.parent.name)] = int(fields[1])
            used[int(file.parent.name)] = sum(map(int, fields[11:15]))
    family = {pid}
    while more := {one for one, parent in parents.items() if parent in family} - family:
        family |= more
    own = time.process_time() if pid == os.getpid() else used.get(pid, 0) / TICK
    return own + sum(used.get(one, 0) for one in family - {pid}) / TICK


def measure(config: Path, data: Path, out: Path, fields: Path | None) -> None:
    """Take all slides through select, read and features; write CPU seconds as JSON, patches and features as npz.

    fields: patches of another process, to be read instead of those selected here.
    """
    import numpy as np

    from slideseek.config import parse_config
    from slideseek.engine import make_engine
    from slideseek.plugins import load_registry
    from slideseek.slides.patch_images import patch_images
    from slideseek.slides.reader import open_slide
    from slideseek.types import Patches

    engine = make_engine(parse_config(config.read_text()).engine(), load_registry())
    engine.features(np.zeros((1, 224, 224, 3), dtype=np.uint8))
    given = dict(np.load(fields)) if fields else {}
    files = slides(data)
    with open_slide(files[0][0], files[0][0].stem, files[0][1] or None) as slide:
        engine.select(slide)  # imports, which happen once per build
    cpu = {"start": cpu_seconds(os.getpid()), **dict.fromkeys(PARTS, 0.0)}
    kept: dict[str, Any] = {}
    for path, mpp in files:
        times = [cpu_seconds(os.getpid())]
        with open_slide(path, path.stem, mpp or None) as slide:
            patches = engine.select(slide)
            times.append(cpu_seconds(os.getpid()))
            if given:
                xy = given[f"xy {path.stem}"]
                patches = Patches(path.stem, xy, patches.size, np.full(len(xy), patches.mpp[0]))
            chunks = [images for _, images in patch_images(slide, patches, engine.read_side(patches))]
            times.append(cpu_seconds(os.getpid()))
        kept[f"features {path.stem}"] = np.concatenate([engine.features(images) for images in chunks])
        kept[f"xy {path.stem}"] = patches.xy
        times.append(cpu_seconds(os.getpid()))
        for part, begin, end in zip(PARTS, times, times[1:]):
            cpu[part] += end - begin
    np.savez(out, **kept)
    out.with_suffix(".json").write_text(json.dumps(cpu))


def run(tree: Path, config: Path, data: Path, out: Path, fields: Path | None = None) -> dict[str, float]:
    """Measure in a process of its own, with the sources of `tree`; return the CPU seconds by part."""
    paths = os.pathsep.join([str(tree / "core"), str(tree / "plugins")])
    command = [sys.executable, __file__, "--data", str(data), "--measure", str(config), str(out)]
    command += [str(fields)] if fields else []
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"})
    found: dict[str, float] = json.loads(out.with_suffix(".json").read_text())
    return found


def checkout(commit: str, folder: Path) -> Path:
    """Write the sources of a commit to `folder`."""
    packed = subprocess.run(["git", "archive", commit, "core", "plugins"], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def report(name: str, before: dict[str, float], now: dict[str, float], count: int) -> None:
    """Print both rows of a table and their ratio."""
    for tree, cpu in (("before", before), ("now", now)):
        total = sum(cpu[part] for part in PARTS)
        parts = "  ".join(f"{part} {cpu[part] / count:.3f}" for part in PARTS)
        share = f"selection {cpu['select'] / total:.0%}"
        print(f"{name:8} {tree:7} {total / count:.3f} CPU s per slide: {parts}  ({share}); start {cpu['start']:.1f}")
    ratio = sum(before[part] for part in PARTS) / sum(now[part] for part in PARTS)
    print(f"{name:8} {ratio:.2f} times less CPU per slide")


def compare(name: str, before: Path, now: Path) -> None:
    """Print whether the fields are the same, and how far features differ where they are."""
    import numpy as np

    old, new = np.load(before), np.load(now)
    ids = [key.removeprefix("xy ") for key in new.files if key.startswith("xy ")]
    same = [one for one in ids if np.array_equal(old[f"xy {one}"], new[f"xy {one}"])]
    away = [
        np.abs(old[f"features {one}"] - new[f"features {one}"]).max() / np.abs(old[f"features {one}"]).max()
        for one in same
    ]
    print(f"{name:8} same fields on {len(same)} of {len(ids)} slides; features differ by at most {max(away):.1e}\n")


def main() -> None:
    """Print the table, or measure one tree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default=BEFORE, help="the commit to compare with")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--only", choices=("paper", "default"), help="make one comparison instead of both")
    parser.add_argument("--measure", nargs="+", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        config, out, *fields = given.measure
        measure(config, given.data, out, fields[0] if fields else None)
        return
    count = len(slides(given.data))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        old = checkout(given.before, folder / "before")
        for preset, file in (("paper", "paper.toml"), ("default", "default.toml")):
            if given.only not in (None, preset):
                continue
            text = (ROOT / "core" / "slideseek" / file).read_text()
            now, before = folder / f"{preset}-now.toml", folder / f"{preset}-before.toml"
            now.write_text(text)
            for new, former in FORMER.items():
                text = text.replace(new, former)
            before.write_text(text)
            fields = now.with_suffix(".npz")
            after = run(ROOT, now, given.data, fields)
            first = run(old, before, given.data, before.with_suffix(".npz"), fields if preset == "default" else None)
            report(preset, first, after, count)
            compare(preset, before.with_suffix(".npz"), fields)


if __name__ == "__main__":
    main()
