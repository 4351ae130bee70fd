"""Copies and rescans are found and named, also over two patients, and different slides are not."""

import numpy as np
import pytest
from PIL import Image

from slideseek.slides.reader import open_slide
from slideseek_apps.doctor.duplicates import SAME, likeness, nearest_pairs, overview

SIDE = 640


def tissue(seed):
    """Paint smooth structures of a few sizes on white."""
    rng, image = np.random.default_rng(seed), np.zeros((SIDE, SIDE))
    for step in (8, 20, 40):
        image += np.asarray(Image.fromarray(rng.random((SIDE // step, SIDE // step))).resize((SIDE, SIDE)))
    shade = (image - image.min()) / np.ptp(image)
    pink, purple = np.array([235.0, 170.0, 205.0]), np.array([110.0, 60.0, 140.0])
    picture = pink * (1 - shade[..., None]) + purple * shade[..., None]
    inside = np.hypot(*(np.indices((SIDE, SIDE)) - SIDE / 2)) < SIDE * 0.45
    return np.where(inside[..., None], picture, 244.0).astype(np.uint8)


def rescanned(picture):
    """Scan it again: turned by 91 degrees, 1 % larger, shifted, darker, with noise."""
    turned = Image.fromarray(picture).rotate(91, fillcolor=(240, 240, 240)).resize((SIDE + 6, SIDE + 6))
    moved = np.asarray(turned).astype(float)[10:, 14:]
    noise = np.random.default_rng(0).normal(0, 4, moved.shape)
    return np.clip((moved / 255) ** 1.3 * 250 + noise, 0, 255).astype(np.uint8)


@pytest.fixture
def archive(tmp_path, slideseek, tiny_config):
    """Six slides, a copy of s0 and a rescan of s1, both under other patients, and a rescan of s2 of its own patient."""
    folder, rows = tmp_path / "many", ["slide_id,filename,case_id,mpp"]
    folder.mkdir()
    for number in range(6):
        Image.fromarray(tissue(number)).save(folder / f"s{number}.png")
        rows.append(f"s{number},s{number}.png,p{number},1.0")
    (folder / "copy.png").write_bytes((folder / "s0.png").read_bytes())
    for name, of in (("again1", 1), ("again2", 2)):
        Image.fromarray(rescanned(tissue(of))).save(folder / f"{name}.png")
    rows += ["copy,copy.png,px,1.0", "again1,again1.png,py,1.0", "again2,again2.png,p2,1.0"]
    (folder / "manifest.csv").write_text("\n".join(rows) + "\n")
    root = tmp_path / "duplicates"
    for arguments in (
        ("init", root, "--config", tiny_config),
        ("add", folder, "--manifest", folder / "manifest.csv", "-a", root),
        ("build", "-a", root),
    ):
        assert slideseek(*arguments).code == 0
    return root


def test_they_are_listed_with_their_patients(archive, slideseek):
    said = slideseek("duplicates", "-a", archive, "--json").json
    found = {(one["first"], one["second"]): (one["kind"], one["leaks"]) for one in said["duplicates"]}
    assert found == {
        ("copy", "s0"): ("same content", True),
        ("again1", "s1"): ("same picture", True),
        ("again2", "s2"): ("same picture", False),
    }
    assert said["leaks"] == 2 and said["compared"] == 9
    text = slideseek("duplicates", "-a", archive)
    assert "3 pair(s) of slides show the same tissue, 2 of them of two patients" in text.out and "py | p1" in text.out


def test_the_doctor_names_them_and_nothing_is_excluded(archive, slideseek):
    quick = {one["name"]: one for one in slideseek("doctor", archive, "--json").json["findings"]}["duplicates"]
    assert (
        quick["state"] == "warn"
        and "1 pair of slides" in quick["detail"]
        and "copy and s0 (px | p0)" in quick["detail"]
    )
    whole = {one["name"]: one for one in slideseek("doctor", archive, "--verify", "--json").json["findings"]}
    assert "2 pairs of slides" in whole["duplicates"]["detail"]
    hits = [hit["slide"]["id"] for hit in slideseek("search", "s1", "-k", "9", "-a", archive, "--json").json["hits"]]
    assert "again1" in hits


def test_different_slides_are_far_from_the_threshold(tmp_path):
    views = []
    for seed in range(4):
        Image.fromarray(tissue(seed)).save(tmp_path / f"{seed}.png")
        with open_slide(tmp_path / f"{seed}.png", mpp=1.0) as slide:
            views.append(overview(slide))
    apart = [likeness(views[i], views[j]) for i in range(4) for j in range(i)]
    assert max(apart) < SAME / 1.5 and likeness(views[0], views[0]) > 0.99


def test_a_slide_is_compared_with_the_nearest_only():
    means = np.vstack([np.eye(40), np.eye(40)[:3] * 2]).astype(np.float32)
    pairs = nearest_pairs(means, 1)
    assert {(0, 40), (1, 41), (2, 42)} <= set(pairs) and len(pairs) <= len(means)
    assert nearest_pairs(means[:1]) == [] and nearest_pairs(means[:2]) == [(0, 1)]
