"""Two hundred damaged files among thirty good slides: the run ends, tells one line each, and loses nothing."""

import random

import numpy as np
import pytest

from slideseek_apps.demo.histology import write_slide

pytestmark = pytest.mark.slow

GOOD, DAMAGED = 30, 200

CONFIG = """
[[engine]]
name       = "quick"
selector   = { use = "grid", size = 128, mpp = 0.5, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "mean" }
index      = { use = "cosine" }
"""


def picture(seed, side=512):
    rng = np.random.default_rng(seed)
    texture = np.kron(rng.random((side // 8, side // 8)), np.ones((8, 8)))[..., None]
    image = np.full((side, side, 3), 245.0)
    inner = slice(64, side - 64)
    image[inner, inner] = (np.array([220.0, 150, 190]) * (1 - texture) + np.array([110.0, 60, 140]) * texture)[
        inner, inner
    ]
    return image.astype(np.uint8)


def truncated(content, rng):
    return content[: rng.randrange(9, len(content) // 2)]


def flipped(content, rng):
    damaged = bytearray(content)
    for _ in range(40):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def zeroed(content, rng):
    start = rng.randrange(len(content) // 2)
    length = len(content) // 3
    return content[:start] + bytes(length) + content[start + length :]


def headless(content, rng):
    return bytes(rng.randrange(32, 127) for _ in range(64)) + content[64:]


def wrong_type(content, rng):
    return bytes(rng.randrange(32, 127) for _ in range(rng.randrange(1, 3000)))


def empty(content, rng):
    return b""


# Whether the kind can ever be read: flipped bits and zeroed blocks may spare everything that is looked at.
KINDS = {truncated: False, flipped: True, zeroed: True, headless: False, wrong_type: False, empty: False}


@pytest.fixture
def mixed(tmp_path):
    rng = random.Random(0)
    folder = tmp_path / "slides"
    folder.mkdir()
    for number in range(GOOD):
        write_slide(folder / f"good-{number:02}.svs", picture(number))
    sources = [path.read_bytes() for path in sorted(folder.iterdir())]
    doomed = set()
    kinds = list(KINDS)
    for number in range(DAMAGED - 3):
        kind = kinds[number % len(kinds)]
        path = folder / f"bad-{number:03}-{kind.__name__}.svs"
        path.write_bytes(kind(rng.choice(sources), rng))
        if not KINDS[kind]:
            doomed.add(path.stem)
    (folder / "bad-folder.svs").mkdir()
    (folder / "bad-dangling.svs").symlink_to(folder / "nowhere.svs")
    (folder / "bad-loop.svs").symlink_to(folder / "bad-loop.svs")
    return folder, doomed


def test_the_good_slides_are_indexed_and_every_bad_one_is_one_line(mixed, tmp_path, slideseek):
    folder, doomed = mixed
    archive = tmp_path / "archive"
    (tmp_path / "c.toml").write_text(CONFIG)
    assert slideseek("init", archive, "--config", tmp_path / "c.toml").code == 0
    added = slideseek("add", *sorted(folder.iterdir()), "-a", archive)
    assert added.code == 3 and "Traceback" not in added.err
    built = slideseek("build", "-a", archive)
    assert built.code == 3 and "Traceback" not in built.err
    status = {s["id"]: s for s in slideseek("status", "-a", archive, "--json").json["slides"]}
    done = {i for i, s in status.items() if s["engines"]["quick"]["state"] == "done"}
    assert {f"good-{n:02}" for n in range(GOOD)} <= done
    failed_lines = [line for line in (added.err + built.err).splitlines() if line.startswith("failed")]
    for name in doomed:
        assert name not in done
        assert len([line for line in failed_lines if name in line]) == 1, name
    for name in set(status) - done:
        (line,) = [line for line in failed_lines if f" {name}:" in line]
        assert "->" in line and len(line) < 700
    assert slideseek("search", "good-00", "-a", archive, "-k", "3").code == 0
