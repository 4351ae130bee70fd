"""The doctor: well where all is well, and the right line, with a fix, for each thing that is broken."""

import os
import sqlite3

import pytest

from slideseek.plugins import Broken, Registration, Registry, load_registry
from slideseek_apps.doctor import software_health
from slideseek_apps.doctor.archive_health import file_system, look_at_archive
from slideseek_apps.doctor.finding import Finding, in_bytes
from slideseek_apps.doctor.plugin_health import look_at_plugins


@pytest.fixture
def states(tiny_archive):
    """Look at the archive again: state and detail by area and name."""

    def look(everything=False):
        found = list(look_at_archive(tiny_archive, everything))
        return {(one.area, one.name): one for one in found}

    return look


def test_all_is_well(tiny_archive, slideseek, monkeypatch):
    monkeypatch.chdir(tiny_archive / "features")  # below an archive, which is looked at without being named
    done = slideseek("doctor", "--json")
    assert done.code == 0, done.out
    findings = done.json["findings"]
    assert done.json["counts"]["fail"] == 0
    names = {(one["area"], one["name"]) for one in findings}
    assert {("software", "OpenSlide library"), ("device", "GPU"), ("plugins", "components")} <= names
    assert {("engine bars", "index"), ("engine mean", "index"), ("archive", "features")} <= names
    assert all(one["fix"] for one in findings if one["state"] != "ok")


def test_damage_is_reported_with_its_fix(tiny_archive, tiny_slides, states, slideseek):
    assert {one.state for one in states().values()} == {"ok"}
    feature = next((tiny_archive / "features").rglob("s3.h5"))
    feature.write_bytes(feature.read_bytes()[:-8] + b"damaged!")
    next((tiny_archive / "features").rglob("s4.h5")).unlink()
    (tiny_slides / "s1.png").unlink()
    (tiny_slides / "s2.png").write_bytes(b"other")
    index = max((tiny_archive / "index" / "bars").rglob("*.npy"), key=lambda path: path.stat().st_size)
    index.write_bytes(b"short")
    db = sqlite3.connect(tiny_archive / "catalog.sqlite")
    one = "SELECT min(key) FROM payloads WHERE kind = 'code'"
    db.execute(f"UPDATE payloads SET data = x'00' WHERE key = ({one})")
    db.commit()
    db.close()
    found = states()
    assert found["archive", "features"].state == "fail" and "1 of 7 damaged" in found["archive", "features"].detail
    assert "1 of 8 missing" in found["archive", "feature files"].detail
    assert "1 of 16 damaged" in found["archive", "codes"].detail
    assert found["archive", "slide files"].state == "warn"
    assert found["engine bars", "index"].state == "fail" and "is damaged" in found["engine bars", "index"].detail
    assert found["engine mean", "index"].state == "ok"
    done = slideseek("doctor", tiny_archive)
    assert (
        done.code == 1
        and "fail  features: 1 of 7 damaged" in done.out
        and "fix: run 'slideseek build --verify'" in done.out
    )


def test_stale_and_unbuilt_indexes_and_wrong_engines_are_reported(tiny_archive, states):
    config = tiny_archive / "slideseek.toml"
    good = config.read_text()
    config.write_text(good.replace('{ use = "cosine" }', '{ use = "cosinus" }'))
    assert "did you mean 'cosine'" in states()["engine mean", "components"].fix
    config.write_text(good.replace('name       = "mean"', 'name       = "new"'))
    assert (states()["engine new", "index"].state, states()["engine new", "index"].detail) == ("warn", "not built yet")
    config.write_text(good.replace("min_tissue = 0.5", "min_tissue = 0.6"))
    assert states()["engine bars", "index"].detail == "out of date"


def test_a_catalogue_that_is_none(tiny_archive, slideseek, tmp_path):
    (tiny_archive / "catalog.sqlite").write_bytes(b"no database" * 100)
    done = slideseek("doctor", tiny_archive, "--json")
    (broken,) = [one for one in done.json["findings"] if one["state"] == "fail"]
    assert done.code == 1 and broken["name"] == "catalogue" and "backup" in broken["fix"]
    assert slideseek("doctor", tmp_path).code == 2


def test_broken_plugins_are_failures():
    entry = Registration("encoder", "odd", "slideseek_nowhere:Odd", "odd", "odd", "odd-plugin", "1.0")
    registry = Registry((entry,), (Broken("bad", "bad-plugin", "2.0", "ImportError: x"),), ("off",))
    found = {one.name: one for one in look_at_plugins(registry)}
    assert found["plugin bad of bad-plugin 2.0"].state == "fail"
    assert found["encoder odd"].state == "fail" and "slideseek_nowhere" in found["encoder odd"].detail
    assert found["off"].state == "warn" and found["components"].detail.startswith("0 components")


def test_readers_are_loaded_and_listed():
    half = Registration("reader", "half", "slideseek_components.encoders.mean:Mean", "no reader", "half", "half", "1.0")
    registry = load_registry(kinds=("reader",))
    found = {one.name: one for one in look_at_plugins(Registry((*registry.entries, half)))}
    assert found["readers"].detail == "dicom, idc, image, isolated, openslide, remote, tiff"
    assert found["reader half"].state == "fail"
    assert "lacks claims, open, rank of the reader interface" in found["reader half"].detail


def test_an_old_openslide_is_a_failure(monkeypatch):
    import openslide

    for version, state in (
        ("4.0.0", "fail"),
        ("3.4.1", "fail"),
        ("4.0.1", "ok"),
        ("4.1.0", "ok"),
        ("4.0.0.11", "fail"),
    ):
        monkeypatch.setattr(openslide, "__library_version__", version)
        assert software_health.openslide_library().state == state, version


def test_versions_are_compared_as_numbers():
    assert software_health.within("2.13.0+cpu", ">=2.6,<2.14") and not software_health.within("2.14", ">=2.6,<2.14")
    assert software_health.within("10.3", ">=10.3.0") and not software_health.within("9.9", ">=10")
    assert not software_health.within("3.0.0", ">=2.1,<3")


def test_the_file_system_is_that_of_the_nearest_mount(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/a / ext4 rw 0 0\nserver:/x {tmp_path.resolve()} nfs4 rw 0 0\n")
    assert file_system(tmp_path, mounts) == "nfs4" and file_system(tmp_path.parent, mounts) == "ext4"
    assert file_system(tmp_path, tmp_path / "none") == ""


def test_findings_have_a_fix_exactly_when_something_is_wrong():
    with pytest.raises(ValueError, match="fix"):
        Finding("a", "b", "fail", "c")
    assert in_bytes(512) == "512 bytes" and in_bytes(3 * 2**30) == "3.0 GiB"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_archive_that_may_not_be_written_is_a_warning(tiny_archive, states):
    tiny_archive.chmod(0o555)
    try:
        assert states()["archive", "rights"].state == "warn"
    finally:
        tiny_archive.chmod(0o755)
