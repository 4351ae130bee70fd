"""The manifest of the Imaging Data Commons, as the package `idc-index-data` has it: nothing is downloaded."""

from pathlib import Path
from typing import Any

import pytest

from slideseek.errors import SlideError, UsageError
from slideseek.slides.reader import open_slide
from slideseek.slides.remote_path import located
from slideseek.slides.remote_slides import find_remote, look_up

pytest.importorskip("idc_index_data", reason="needs slideseek[idc]")


def test_a_collection_is_added_with_patient_and_licence_and_nothing_is_read(
    slideseek: Any, tiny_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a slide was looked up")

    monkeypatch.setattr("slideseek_components.readers.remote_reader.objects_at", refuse)
    archive = tmp_path / "archive"
    slideseek("init", archive, "--config", tiny_config)
    added = slideseek("add", "idc:tcga_chol", "--where", "FFPE diagnostic", "-a", archive)
    assert added.code == 0 and added.out.startswith("39 added"), added.err
    slides = slideseek("status", "-a", archive, "--json").json["slides"]
    one = slides[0]
    assert one["path"].startswith("s3://idc-open-data/") and one["patient"].startswith("TCGA-")
    assert (one["label"], one["center"]) == ("CHOL", one["patient"].split("-")[1]) and one["site"] == "Bile Duct"
    assert one["fields"]["license"].startswith("CC BY") and one["fields"]["collection"] == "tcga_chol"
    assert all("DX" in slide["fields"]["description"] and slide["file"] == "same" for slide in slides)
    again = slideseek("add", "idc:tcga_chol", "--where", "FFPE diagnostic", "-a", archive)
    assert "39 unchanged" in again.out
    assert slideseek("add", "idc:tcga_chol", tmp_path / "tiny.toml", "-a", archive).code != 0  # not both at once


def test_conditions_choose_slides() -> None:
    path = located("idc:tcga_chol")
    every = find_remote(path)
    assert 0 < len(find_remote(path, ["diagnostic"])) < len(every)
    assert find_remote(path, ["license=none"]) == [] and len(find_remote(path, ["collection=tcga_chol"])) == len(every)
    tumour, other = find_remote(path, ["kind=primary tumor"]), find_remote(path, ["kind!=primary tumor"])
    assert tumour and len(tumour) + len(other) == len(every)
    with pytest.raises(UsageError, match="no field 'licence'"):
        find_remote(path, ["licence=CC BY 4.0"])


def test_unknown_collections_and_opening_one_are_clear_errors() -> None:
    with pytest.raises(UsageError, match=r"no collection 'tcga_brc' .*tcga_brca"):
        find_remote(located("idc:tcga_brc"))
    with pytest.raises(SlideError, match="is a collection, not a slide"):
        open_slide(located("idc:tcga_brca"))


def test_a_series_never_changes_under_its_name() -> None:
    url = located("s3://idc-open-data/20ab74ef-080b-4975-adad-7507b7b04cb8")
    assert look_up(url) == look_up(url)


def test_collections_are_listed(slideseek: Any) -> None:
    found = slideseek("collections", "idc:tcga_brca", "--where", "diagnostic", "--json").json
    assert [one["collection"] for one in found] == ["tcga_brca"] and found[0]["slides"] == 1133
    assert found[0]["bytes"] > 10**12 and found[0]["licenses"] and found[0]["sites"] == ["Breast"]
    shown = slideseek("collections", "idc:tcga_chol")
    assert "tcga_chol" in shown.out and "TB" in shown.out
    assert slideseek("collections", "here").code != 0
