"""An archive of slides elsewhere: added by URL, built, searched; changes are noticed, and nothing secret is kept."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from servers import Ranges

Put = Callable[[str, bytes], str]


def png(image: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture
def remote_archive(
    s3: Put, slideseek: Any, tiny_config: Path, tiny_slides: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> tuple[Path, str]:
    """An archive of the eight tiny slides in S3, added with a manifest of URLs and built; and their bucket."""
    bucket = f"archive-{abs(hash(request.node.name)) % 10**8}"
    lines = (tiny_slides / "manifest.csv").read_text().splitlines()
    rows = [lines[0]]
    for line in lines[1:]:
        name, file, *rest = line.split(",")
        rows.append(",".join((name, s3(f"{bucket}/{file}", (tiny_slides / file).read_bytes()), *rest)))
    manifest = tmp_path / "remote.csv"
    manifest.write_text("\n".join(rows))
    archive = tmp_path / "remote"
    assert slideseek("init", archive, "--config", tiny_config).code == 0
    added = slideseek("add", "--manifest", manifest, "-a", archive)
    assert added.code == 0 and "8 added" in added.out, added.err
    assert slideseek("build", "-a", archive).code == 0
    return archive, bucket


def codes(archive: Path) -> dict[str, str]:
    from slideseek.api import open_archive

    with open_archive(archive) as opened:
        stages = [r for r in opened.archive.catalog.stages("encode") if r.status == "done"]
        payloads = {(r.slide_id, r.settings): opened.archive.catalog.payload(r.key) for r in stages}
        return {f"{slide} {settings}": payload.sha256 for (slide, settings), payload in payloads.items() if payload}


def test_codes_equal_those_of_local_files(remote_archive: tuple[Path, str], tiny_archive: Path) -> None:
    assert codes(remote_archive[0]) == codes(tiny_archive) and len(codes(tiny_archive)) == 16


def test_a_changed_object_is_noticed(
    remote_archive: tuple[Path, str], s3: Put, slideseek: Any, texture: Callable[..., np.ndarray]
) -> None:
    archive, bucket = remote_archive
    assert {slide["file"] for slide in slideseek("status", "-a", archive, "--json").json["slides"]} == {"same"}
    s3(f"{bucket}/s0.png", png(texture(99, side=320)))
    states = {slide["id"]: slide["file"] for slide in slideseek("status", "-a", archive, "--json").json["slides"]}
    assert states.pop("s0") == "changed" and set(states.values()) == {"same"}
    found = slideseek("search", "s0", "-a", archive, "--json").json
    assert any("'s0' has another size or date" in note for note in found["notes"])
    before = codes(archive)
    built = slideseek("build", "-a", archive)
    assert built.code == 0 and "slide 's0' has been replaced" in built.err + built.out
    after = codes(archive)
    changed = {name.split()[0] for name in before if before[name] != after[name]}
    assert changed == {"s0"} and len(after) == len(before)
    assert slideseek("add", "--manifest", archive.parent / "remote.csv", "-a", archive).out.startswith("0 added")


def test_out_of_reach_is_a_note_and_searches_work(
    remote_archive: tuple[Path, str], slideseek: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, _ = remote_archive
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("slideseek.slides.remote_slides.LOOK_UP_SECONDS", 5.0)
    import fsspec

    fsspec.get_filesystem_class("s3").clear_instance_cache()
    status = slideseek("status", "-a", archive)
    assert status.code == 0 and "could not be looked up where it lies" in status.out
    found = slideseek("search", "s1", "-a", archive)
    assert found.code == 0 and "could not be looked up" in found.err + found.out
    built = slideseek("build", "-a", archive)
    assert built.code == 0 and "it is taken as unchanged" in built.err + built.out
    assert len(codes(archive)) == 16  # nothing was forgotten
    fsspec.get_filesystem_class("s3").clear_instance_cache()


def test_a_missing_object_keeps_its_results(remote_archive: tuple[Path, str], slideseek: Any) -> None:
    import boto3

    archive, bucket = remote_archive
    boto3.client("s3").delete_object(Bucket=bucket, Key="s3.png")
    status = slideseek("status", "-a", archive)
    assert "missing slide 's3'" in status.out
    assert slideseek("build", "-a", archive).code == 0 and len(codes(archive)) == 16


def test_nothing_secret_is_kept(remote_archive: tuple[Path, str], cache: Path, slideseek: Any) -> None:
    archive, _ = remote_archive
    slideseek("status", "-a", archive, "--json")
    for folder in (archive, cache):
        for path in folder.rglob("*"):
            if path.is_file():
                assert b"secret-test-key" not in path.read_bytes(), path


def test_slides_are_added_by_their_urls_with_one_look_up_each(
    web: tuple[str, type[Ranges]], slideseek: Any, tiny_config: Path, tmp_path: Path, texture: Callable[..., np.ndarray]
) -> None:
    address, served = web
    for number in range(3):
        served.files[f"/slide{number}.png"] = png(texture(number, side=320))
    archive = tmp_path / "urls"
    slideseek("init", archive, "--config", tiny_config)
    urls = [f"{address}/slide{number}.png" for number in range(3)]
    added = slideseek("add", *urls, "-a", archive, "--json")
    assert added.json["added"] == ["slide0", "slide1", "slide2"]
    assert served.asked == [("HEAD", "")] * len(served.asked) and len(served.asked) <= 2 * len(urls)
    assert slideseek("add", *urls, "-a", archive, "--json").json["unchanged"] == ["slide0", "slide1", "slide2"]
    missing = slideseek("add", f"{address}/none.png", "-a", archive)
    assert missing.code != 0 and "nothing is at" in missing.err
    refused = slideseek("add", "https://me:word@host/a.svs", "-a", archive)
    assert refused.code != 0 and "contains a password" in refused.err and "word@" not in refused.err + refused.out
    assert slideseek("add", tmp_path, "--where", "x=y", "-a", archive).code != 0


def test_a_slide_elsewhere_is_a_query(
    remote_archive: tuple[Path, str], s3: Put, slideseek: Any, texture: Callable[..., np.ndarray]
) -> None:
    archive, bucket = remote_archive
    known = slideseek("search", f"s3://{bucket}/s0.png", "-a", archive, "--mpp", "1", "--json").json
    assert any("is slide 's0'" in note for note in known["notes"])
    fresh = s3(f"{bucket}/query.png", png(texture(50, side=320)))
    inspected = slideseek("inspect", fresh, "--mpp", "1", "-o", archive.parent / "inspected.png", "--json")
    assert inspected.json["dimensions"] == [320, 320]
    assert len(slideseek("search", fresh, "-a", archive, "--mpp", "1", "-k", "3", "--json").json["hits"]) == 3
