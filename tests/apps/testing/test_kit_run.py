"""Running the kit without pytest, its toy data, and what importing it costs."""

import itertools
import pickle
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import slideseek_apps.testing as kit
from slideseek.plugins import COMPONENT_KINDS
from slideseek.types import Bag, Code, CodeKind, CodeSpec
from slideseek_apps.testing.stored_files import require_no_pickle


@dataclass
class Raises:
    """An encoder that fails in a way of its own whatever it is asked."""

    def spec(self, width: int) -> CodeSpec:
        raise RuntimeError("no spec\ntoday")

    def encode(self, bag: Bag) -> Code:
        raise ZeroDivisionError


def test_failing_component_is_reported_and_never_raises() -> None:
    results = kit.run_checks("encoder", Raises)
    assert [result.name for result in results] == [check.__name__ for check in kit.encoder_checks()]
    by_name = {result.name: result for result in results}
    assert by_name["options_are_fields"].passed
    assert by_name["options_are_fields"].message == ""
    failed = by_name["spec_is_known_in_advance"]
    assert not failed.passed
    line = Raises.spec.__code__.co_firstlineno + 1
    assert f"RuntimeError: no spec today at test_kit_run.py line {line}." in failed.message
    assert failed.summary.startswith("`spec` gives the format of the codes")
    assert failed.seconds >= 0
    assert "ZeroDivisionError" in by_name["empty_bag_is_refused"].message


def test_traceback_is_shown_on_request(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    kit.run_checks("encoder", Raises)
    assert "Traceback" not in capsys.readouterr().err
    monkeypatch.setenv("SLIDESEEK_DEBUG", "1")
    kit.run_checks("encoder", Raises)
    assert 'raise RuntimeError("no spec\\ntoday")' in capsys.readouterr().err


def test_component_that_cannot_be_made_fails_every_check() -> None:
    def make() -> None:
        raise OSError("no weights")

    for kind in COMPONENT_KINDS:
        results = kit.run_checks(kind, make)
        assert results
        assert all(not result.passed and "OSError: no weights" in result.message for result in results)


def test_interrupt_is_not_swallowed() -> None:
    def make() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kit.run_checks("index", make)


def test_chosen_checks_alone_are_run() -> None:
    chosen = kit.encoder_checks()[:2]
    assert [result.name for result in kit.run_checks("encoder", Raises, chosen)] == [c.__name__ for c in chosen]


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(
        ValueError, match="kind must be one of selector, featurizer, encoder, index, reranker, reader, not 'encoders'"
    ):
        kit.run_checks("encoders", Raises)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "checks",
    [
        kit.selector_checks(),
        kit.featurizer_checks(),
        kit.encoder_checks(),
        kit.index_checks(),
        kit.reranker_checks(),
    ],
)
def test_names_are_unique_and_every_check_is_summarised(checks: tuple[kit.Check, ...]) -> None:
    assert len({check.__name__ for check in checks}) == len(checks)
    for check in checks:
        assert check.__doc__ is not None
        assert check.__doc__.strip().endswith("."), check.__name__
        assert "\n" not in check.__doc__.strip(), check.__name__


def test_importing_the_kit_loads_nothing_heavy() -> None:
    code = "import sys, slideseek_apps.testing; sys.exit('numpy' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_can_be_had() -> None:
    for name in kit.__all__:
        assert getattr(kit, name) is not None
    assert dir(kit) == sorted(kit.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = kit.nonsense


def test_toy_bags_are_the_same_again_and_read_only() -> None:
    first, second = kit.toy_bags(seed=3, count=8, width=5), kit.toy_bags(seed=3, count=8, width=5)
    other = kit.toy_bags(seed=4, count=8, width=5)
    assert len(first.bags) == len(first.labels) == len(first.groups) == 8
    for a, b, c in zip(first.bags, second.bags, other.bags):
        assert a.width == 5
        assert np.array_equal(a.features, b.features)
        assert not np.array_equal(a.features, c.features)
        assert not a.features.flags.writeable
        assert len(np.unique(a.xy, axis=0)) == len(a)
    seen = set(zip((bag.site for bag in first.bags), first.labels))
    assert seen == set(itertools.product(("kidney", "liver"), ("calm", "busy")))


def test_toy_patients_keep_to_one_label() -> None:
    bags = kit.toy_bags(count=16)
    assert len(set(bags.groups)) == 8
    assert len(set(zip(bags.groups, bags.labels))) == 8


@pytest.mark.parametrize(
    "spec",
    [
        CodeSpec(kind, width, many)
        for kind, width, many in itertools.product(get_args(CodeKind), (37, 64), (False, True))
    ],
    ids=str,
)
def test_toy_codes_honour_their_spec(spec: CodeSpec) -> None:
    codes = kit.toy_codes(spec, n=6, space="kidney", prefix="s")
    assert [code.slide_id for code in codes] == [f"s-{n:02d}" for n in range(6)]
    for code, again in zip(codes, kit.toy_codes(spec, n=6)):
        assert code.mismatch(spec) == ""
        assert code.space == "kidney"
        assert np.array_equal(code.rows, again.rows)
        if spec.kind == "sparse":
            assert 0 < np.count_nonzero(code.rows) < code.rows.size / 2


def test_toy_slide_shows_tissue_or_glass() -> None:
    slide = kit.toy_slide(width=512, height=384, mpp=0.25, slide_id="s")
    assert (slide.id, slide.dimensions, slide.mpp) == ("s", (512, 384), 0.25)
    centre = slide.read((192, 128), 128, 0.25)
    assert np.ptp(centre.astype(int), axis=2).min() > 20
    assert (kit.toy_slide(width=512, height=384, tissue=False).thumbnail(128) == 255).all()
    glass = kit.toy_slide(width=512, height=384, tissue=False, glass=240).thumbnail(128)
    assert 225 < glass.min() < glass.max() < 255


def test_same_glass_is_scanned_at_three_resolutions() -> None:
    scans = [kit.toy_slide(width=512, height=384, scan_mpp=mpp) for mpp in (0.25, 0.5, 1.0)]
    assert [scan.dimensions for scan in scans] == [(1024, 768), (512, 384), (256, 192)]
    assert [scan.mpp for scan in scans] == [0.25, 0.5, 1.0]
    pixels = [scan.read((0, 0), 192, 1.0).astype(int) for scan in scans]
    assert all(np.abs(one - pixels[1]).mean() < 4 for one in pixels)


def test_tissue_touches_the_border() -> None:
    thumbnail = kit.toy_slide(width=512, height=384, centre=0.8).thumbnail(128).astype(int)
    stained = np.ptp(thumbnail, axis=2) > 20
    assert stained[-1].any() and stained[:, -1].any()
    assert not stained[0].any()


def test_toy_bags_mix_resolutions() -> None:
    for bag in kit.toy_bags().bags:
        assert bag.sides is not None and bag.mpp is not None
        assert set(bag.sides * bag.mpp) == {256.0}
    assert {bag.mpp for bag in kit.toy_bags().bags} == {0.25, 0.5}


def test_toy_images_differ() -> None:
    images = kit.toy_images(count=5, side=12)
    assert images.shape == (5, 12, 12, 3)
    assert len({image.tobytes() for image in images}) == 5


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("state.json", b"{'a': 1}", "is not JSON"),
        ("state.json", b"\x80\x04K\x01.", "starts like a pickle"),
        ("state.npy", b"\x80\x05K\x01.", "starts like a pickle"),
        ("state.npy", pickle.dumps({"a": [1]}, protocol=0), "is a pickle of an old protocol"),
        ("state.npy", pickle.dumps(Path, protocol=1) + b"and more", "is a pickle of an old protocol"),
        ("state.pkl", b"anything", "a file inner/state.pkl"),
    ],
)
def test_stored_pickle_is_found(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / name).write_bytes(content)
    with pytest.raises(kit.CheckFailed, match=reason):
        require_no_pickle(tmp_path, (".json", ".npy"))


def test_saving_nothing_is_found(tmp_path: Path) -> None:
    with pytest.raises(kit.CheckFailed, match="at least one file"):
        require_no_pickle(tmp_path)


def test_plain_files_pass(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"a": 1}')
    np.save(tmp_path / "state.npy", np.arange(3))
    np.savez(tmp_path / "state.npz", a=np.arange(3), b=np.ones(2))
    (tmp_path / "log.csv").write_text("epoch,loss\n1,0.5\n")
    # The length of a header in a safetensors file may look like the start of a pickle.
    (tmp_path / "state.safetensors").write_bytes(struct.pack("<Q", 640) + b"{}".ljust(640))
    for i in range(256):
        (tmp_path / f"{i}.bin").write_bytes(bytes([i]) * 5)
    require_no_pickle(tmp_path)
