"""The Python interface: `slideseek.open` and what it returns."""

import subprocess
import sys

import pytest

import slideseek
from slideseek.errors import ParameterError, UsageError
from slideseek.searching.request import Request, query_kind


def test_importing_slideseek_loads_nothing_heavy():
    heavy = "import sys, slideseek; raise SystemExit(bool({'numpy', 'torch', 'pluggy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", heavy], check=False).returncode == 0


def test_search_as_in_a_notebook(tiny_archive):
    with slideseek.open(tiny_archive) as archive:
        assert archive.engines == ("bars", "mean") and archive.slides == [f"s{n}" for n in range(8)]
        found = archive.search("s0", k=3)
        assert len(found) == 3 and [one.rank for one in found] == [1, 2, 3]
        assert found[0].record.label == "coarse" and found.answer.votes["label"].value == "coarse"
        vertical = archive.search("s0", mode="vertical", engine="mean", where=["age>=51"])
        assert {one.record.site for one in vertical} == {"colon"}
        assert archive.explain(found, found[0].record.id).kind == "pairs"
        assert "8 slides" in repr(archive) and "8 slides" in archive._repr_html_()


def test_the_command_line_and_python_answer_alike(tiny_archive, slideseek_json):
    with slideseek.open(tiny_archive) as archive:
        mine = archive.search("s0", k=4, where=["site=lung"])
    theirs = slideseek_json("search", "s0", "-k", "4", "--where", "site=lung", "-a", tiny_archive)
    assert [(one.record.id, one.hit.distance) for one in mine] == [
        (hit["slide"]["id"], hit["distance"]) for hit in theirs["hits"]
    ]


@pytest.fixture
def slideseek_json(request):
    cli = request.getfixturevalue("slideseek")
    return lambda *arguments: cli(*arguments, "--json").json


def test_a_table_of_hits_is_html_and_escapes_what_it_shows(tiny_archive, tiny_slides):
    manifest = tiny_slides / "manifest.csv"
    manifest.write_text(manifest.read_text().replace("lung,coarse", "lung,<b>coarse"))
    with slideseek.open(tiny_archive) as archive:
        page = archive.search("s1", k=2)._repr_html_()
        assert page.count("<tr>") == 3 and "distance (bits)" in page and "diagnosis" in page
        hostile = archive.archive.catalog
        with hostile.transaction():
            hostile.slides.rename("s3", "<script>x</script>")
        archive.forget()
        page = archive.search("s1", k=7)._repr_html_()
        assert "<script>" not in page


def test_create_and_build(tmp_path, tiny_slides, tiny_config):
    with slideseek.create(tmp_path / "new", tiny_config.read_text()) as archive:
        assert archive.slides == [] and archive.build().indexed == {"bars": 0, "mean": 0}
    with pytest.raises(UsageError, match="is already an archive"):
        slideseek.create(tmp_path / "new", tiny_config.read_text())
    with pytest.raises(UsageError, match="no selector named 'gird'"):
        slideseek.create(tmp_path / "other", tiny_config.read_text().replace('"grid"', '"gird"'))
    assert not (tmp_path / "other").exists()


def test_a_build_is_silent_and_its_summary_says_what_was_done(tiny_archive, capsys):
    with slideseek.open(tiny_archive) as archive:
        summary = archive.build()
        assert summary.indexed == {"bars": 8, "mean": 8} and summary.counts["skipped"] == 8
        assert archive.status()["engines"][0]["coded"] == 8
    assert capsys.readouterr().err == ""


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        slideseek.opne  # noqa: B018


def test_requests_are_keyword_only_and_checked():
    with pytest.raises(TypeError):
        Request("s0", "slide")  # type: ignore[call-arg]
    with pytest.raises(ParameterError, match="kind must be one of slide, region, patch, case") as refused:
        Request(text="s0", kind="slides")  # type: ignore[arg-type]
    assert refused.value.parameter == "kind"
    with pytest.raises(ParameterError, match="needs a GeoJSON file, and none is given"):
        Request(text="s0", kind="region", region="1,2,3,4", annotation="tumour")
    with pytest.raises(ParameterError, match="cannot be used together"):
        query_kind("1,2,3,4", patch=True, case=False, text=False)


def test_a_request_survives_the_log():
    asked = Request(text="s0", kind="region", region="1,2,3,4", k=7, where=("age>3",), relevant=("s1",))
    assert Request.unpack(asked.pack()) == asked
    assert Request(text="s0").pack() == {"text": "s0"}
    assert asked.question() == Request(text="s0", kind="region", region="1,2,3,4")


def test_a_front_end_says_how_to_give_a_parameter():
    error = ParameterError("site", "the site is unknown", "search the whole archive")
    said = error.in_words_of({"site": "choose a site"})
    assert said.fix == "choose a site, or search the whole archive"
    assert error.in_words_of({}).fix == "search the whole archive"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mode": "vert"}, "mode must be one of vertical, horizontal, not 'vert'"),
        ({"k": "3"}, "k must be a whole number of at least 1, not '3'"),
        ({"k": 2.5}, "k must be a whole number"),
        ({"k": 0}, "k must be a whole number of at least 1, not 0"),
        ({"kind": "case", "region": "0,0,9,9"}, "a region goes with kind 'region' only"),
        ({"kind": "region"}, "a region goes with kind 'region' only"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_a_search(tiny_archive, given, message):
    with slideseek.open(tiny_archive) as archive, pytest.raises(ParameterError, match=message):
        archive.search("s0", **given)


def test_python_says_how_to_give_what_is_missing(tiny_archive, tiny_slides, tmp_path):
    copy = tmp_path / "new.png"
    copy.write_bytes((tiny_slides / "s1.png").read_bytes() + b"another file")
    with slideseek.open(tiny_archive) as archive:
        with pytest.raises(UsageError) as refused:
            archive.search(copy, mode="vertical", mpp=1.0)
        assert refused.value.fix == "pass site=..., or search the whole archive"
        one, several = archive.search("s0", where="site=lung"), archive.search("s0", where=["site=lung"])
        assert [found.hit for found in one] == [found.hit for found in several]
        assert repr(one).startswith("<4 hits for 's0', engine bars: ")
    assert "open" in dir(slideseek) and "Any" not in dir(slideseek)
