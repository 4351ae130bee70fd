"""Real slides of several formats: added, built and searched, or refused with a clear cause."""

import pytest

pytestmark = [pytest.mark.shared, pytest.mark.slow]

CONFIG = """
[[engine]]
name       = "quick"
selector   = { use = "mosaic", size = 256, mpp = 1.0, percent = 10 }
featurizer = { use = "colour-texture" }
encoder    = { use = "yottixel" }
index      = { use = "hamming" }
"""


@pytest.fixture
def archive(tmp_path, slideseek):
    (tmp_path / "c.toml").write_text(CONFIG)
    assert slideseek("init", tmp_path / "archive", "--config", tmp_path / "c.toml").code == 0
    return tmp_path / "archive"


def test_the_atlas_slides_are_added_built_and_searched(archive, shared_data, slideseek):
    folder = shared_data / "slides-atlas"
    assert slideseek("add", folder, "--manifest", folder / "slides.csv", "-a", archive).code == 0
    built = slideseek("build", "-a", archive, "--json")
    assert built.code == 0 and built.json["indexed"] == {"quick": 11}
    own = slideseek("search", "erosion__HE", "-a", archive, "--json", "--include-same-patient").json["hits"][0]
    assert (own["slide"]["id"], own["distance"]) == ("erosion__HE", 0.0)
    hits = slideseek("search", "colon-adenocarcinoma__HE", "-a", archive, "--vertical", "--json").json["hits"]
    assert len(hits) == 5 and {h["slide"]["site"] for h in hits} == {"colon"}
    assert "colon-adenocarcinoma" not in {h["slide"]["patient"] for h in hits}


def test_every_format_is_read_or_refused_with_a_cause(archive, shared_data, slideseek):
    added = slideseek("add", shared_data / "slides-formats", "-a", archive, "--json")
    assert len(added.json["added"]) == 8 and not added.json["problems"]
    built = slideseek("build", "-a", archive, "--json")
    assert built.code == 3 and "Traceback" not in built.err
    failures = built.json["failures"]
    for name, cause in (
        ("broken", "not a slide"),
        ("unsupported-webp", ""),
        ("wrong-unit-mpp-0.005um", "0.005"),
        ("TCGA-CR-7395-01A-01-TS1_small", "resolution"),
        ("kidney-HE-region", "resolution"),
        ("prostate-HE-6level", "µm"),
    ):
        assert cause in failures[name]["cause"] and failures[name]["fix"], name
    assert built.json["indexed"]["quick"] == 2, "the Aperio slide and its DICOM twin are read"


def test_a_stated_resolution_mends_the_slides_that_have_none(archive, shared_data, slideseek):
    files = [
        shared_data / "slides-formats" / name
        for name in ("TCGA-CR-7395-01A-01-TS1_small.svs", "kidney-HE-region.svs", "prostate-HE-6level.tiff")
    ]
    assert slideseek("add", *files, "-a", archive, "--mpp", "0.5").code == 0
    built = slideseek("build", "-a", archive, "--json")
    assert built.code == 0 and built.json["indexed"] == {"quick": 3}
