"""What is known of an uploaded patch arrives where it belongs: in vertical searches and with conditioned encoders."""

import io

import httpx
import pytest
from PIL import Image

from slideseek_apps.viewer.server import serving

CONFIG = """
[[engine]]
name       = "bars"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "yottixel" }
index      = { use = "hamming" }

[[engine]]
name       = "by-site"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "c-gmm-fv", components = 2 }
index      = { use = "cosine" }
"""


@pytest.fixture
def client(tiny_archive, slideseek):
    (tiny_archive / "slideseek.toml").write_text(CONFIG)
    assert slideseek("build", "-a", tiny_archive).code == 0
    with (
        serving(tiny_archive) as running,
        httpx.Client(
            base_url=running.origin,
            headers={"authorization": f"Bearer {running.token}"},
            timeout=60,
            trust_env=False,
        ) as made,
    ):
        yield made


@pytest.fixture
def patch(client, tiny_slides):
    """A patch cut from s2, of patient p2 and site colon."""
    buffer = io.BytesIO()
    with Image.open(tiny_slides / "s2.png") as image:
        image.crop((64, 64, 128, 128)).save(buffer, "PNG")
    return client.post("/api/patches", content=buffer.getvalue()).json()["patch"]


def search(client, engine, query, **how):
    return client.post("/api/search", json={"engine": engine, "query": query, "k": 8, **how})


def test_a_vertical_search_with_a_patch_stays_within_its_site(client, patch):
    found = search(client, "bars", {"kind": "patch", "patch": patch, "site": "colon"}, mode="vertical")
    assert found.status_code == 200, found.text
    answer = found.json()
    assert {hit["slide"]["site"] for hit in answer["hits"]} == {"colon"} and answer["candidates"] == 4
    assert (answer["hits"][0]["slide"]["id"], answer["hits"][0]["distance"]) == ("s2", 0)
    assert answer["query"]["site"] == "colon" and answer["query"]["key"] == ""


def test_a_conditioned_encoder_takes_a_patch_of_a_known_site(client, patch):
    found = search(client, "by-site", {"kind": "patch", "patch": patch, "site": "lung"})
    assert found.status_code == 200, found.text
    assert {hit["slide"]["site"] for hit in found.json()["hits"]} == {"lung"}
    hit = found.json()["hits"][0]["slide"]["key"]
    query = {"kind": "patch", "patch": patch, "site": "lung"}
    assert client.post("/api/explain", json={"engine": "by-site", "query": query, "hit": hit}).status_code == 200


def test_the_patient_and_the_centre_of_a_patch_are_left_out(client, patch):
    own = search(client, "bars", {"kind": "patch", "patch": patch, "patient": "p2"}).json()
    assert "s2" not in {hit["slide"]["id"] for hit in own["hits"]} and len(own["hits"]) == 7
    apart = search(client, "bars", {"kind": "patch", "patch": patch, "center": "C0"}, exclude_center=True).json()
    assert {hit["slide"]["center"] for hit in apart["hits"]} == {"C1", "C2"}


@pytest.mark.parametrize(
    ("engine", "how", "parameter"),
    [("bars", {"mode": "vertical"}, "site"), ("by-site", {}, "site"), ("bars", {"exclude_center": True}, "centre")],
)
def test_what_is_missing_is_said_in_words_of_the_page(client, patch, engine, how, parameter):
    refused = search(client, engine, {"kind": "patch", "patch": patch}, **how)
    assert refused.status_code == 400
    problem = refused.json()
    assert parameter in problem["error"] and problem["fix"]
    assert "the image" in problem["error"] and ".png" not in problem["error"]
    assert "--" not in problem["error"] + problem["fix"] and "pass" not in problem["fix"]


def test_two_sites_of_one_patch_are_two_queries(client, patch):
    """Queries are kept by what was asked with: another site must not get the answer of the first."""
    for site in ("colon", "lung", "colon"):
        answer = search(client, "by-site", {"kind": "patch", "patch": patch, "site": site}).json()
        assert {hit["slide"]["site"] for hit in answer["hits"]} == {site}


def test_an_unknown_site_is_refused_with_the_known_ones(client, patch):
    refused = search(client, "by-site", {"kind": "patch", "patch": patch, "site": "liver"})
    assert refused.status_code == 400 and "colon, lung" in refused.json()["error"]


def test_the_page_knows_the_sites(client):
    assert client.get("/api/archive").json()["sites"] == ["colon", "lung"]
