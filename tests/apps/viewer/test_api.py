"""The API: what the page asks it, and what it answers."""

import io

import numpy as np
import pytest
from PIL import Image

from slideseek.slides.reader import open_slide


def ask(client, path="search", **body):
    answer = client.post(f"/api/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def picture(answer):
    assert answer.status_code == 200 and answer.headers["content-type"] == "image/jpeg", answer.text
    return np.asarray(Image.open(io.BytesIO(answer.content))).astype(int)


def test_the_archive_lists_its_engines_and_why_one_cannot_be_used(client):
    told = client.get("/api/archive").json()
    engines = {one["name"]: one for one in told["engines"]}
    assert told["slides"] == 8 and told["name"] == "archive of slides"
    assert engines["pairs"]["unit"] == "bits" and engines["pairs"]["patch_um"] == 64 and not engines["pairs"]["problem"]
    assert "no-such-featurizer" in engines["unready"]["problem"]


def test_slides_are_paged_filtered_and_found_by_words(client):
    first = client.get("/api/slides", params={"limit": 3}).json()
    rest = client.get("/api/slides", params={"limit": 100, "offset": 3}).json()
    ids = [slide["id"] for slide in first["slides"] + rest["slides"]]
    assert first["total"] == 8 and ids == sorted(ids) and len(set(ids)) == 8
    colon = client.get("/api/slides", params={"facet": ["site=colon", "label=normal mucosa"]}).json()
    assert {slide["id"] for slide in colon["slides"]} == {"colon-nor-01", "colon-nor-02"}
    either = client.get("/api/slides", params={"facet": ["label=normal mucosa", "label=lobular carcinoma"]}).json()
    assert either["total"] == 4
    assert client.get("/api/slides", params={"text": "LOBULAR p-00"}).json()["total"] == 2
    assert client.get("/api/slides", params={"facet": "colour=red"}).status_code == 400


def test_a_facet_counts_what_the_other_facets_leave(client):
    facets = {one["name"]: one["values"] for one in client.get("/api/facets", params={"facet": "site=colon"}).json()}
    assert {one["value"]: one["slides"] for one in facets["site"]} == {"breast": 4, "colon": 4}
    assert {one["value"]: one["slides"] for one in facets["label"]} == {"adenocarcinoma": 2, "normal mucosa": 2}


def test_no_answer_reveals_paths(client, slides, painted_archive):
    key = slides["colon-ade-01"]["key"]
    texts = [
        client.get(f"/api/{path}").text for path in ("archive", "slides", "facets", f"slides/{key}", "openapi.json")
    ]
    texts.append(client.post("/api/search", json={"engine": "parts", "query": {"kind": "slide", "slide": key}}).text)
    for text in texts:
        assert str(painted_archive) not in text and str(painted_archive.parent) not in text and ".svs" not in text


def test_tiles_show_the_slide(client, slides, painted_archive):
    slide = slides["breast-duc-01"]
    detail = client.get(f"/api/slides/{slide['key']}").json()["image"]
    assert (detail["width"], detail["height"], detail["levels"], detail["mpp"]) == (1024, 1024, 11, 0.5)
    with open_slide(painted_archive / "slides" / "breast-duc-01.svs") as opened:
        exact = opened.read((256, 512), 256, 0.5).astype(int)
        whole = opened.thumbnail(64).astype(int)
    tile = picture(client.get(f"/api/slides/{slide['key']}/tiles/10/1/2"))
    assert tile.shape == exact.shape and np.abs(tile - exact).mean() < 6
    coarse = picture(client.get(f"/api/slides/{slide['key']}/tiles/6/0/0"))
    assert coarse.shape == whole.shape and np.abs(coarse - whole).mean() < 6
    field = picture(
        client.get(f"/api/slides/{slide['key']}/field", params={"x": 256, "y": 512, "extent": 256, "side": 256})
    )
    assert np.abs(field - exact).mean() < 6
    assert client.get(f"/api/slides/{slide['key']}/tiles/10/4/0").status_code == 404
    assert client.get(f"/api/slides/{slide['key']}/tiles/11/0/0").status_code == 404


def test_pictures_are_kept_by_browsers_and_not_sent_twice(client, slides):
    slide = slides["breast-duc-01"]
    for path in ("thumbnail", "tiles/10/0/0", "field?x=0&y=0&extent=128"):
        joint = "&" if "?" in path else "?"
        first = client.get(f"/api/slides/{slide['key']}/{path}{joint}v={slide['version']}")
        assert "immutable" in first.headers["cache-control"] and "private" in first.headers["cache-control"]
        again = client.get(f"/api/slides/{slide['key']}/{path}", headers={"if-none-match": first.headers["etag"]})
        assert again.status_code == 304 and not again.content
        assert again.headers["cache-control"] == "private, no-cache"  # no version in its address
    assert client.get("/api/archive").headers["cache-control"] == "no-store"


@pytest.mark.parametrize("engine", ["pairs", "parts"])
def test_a_search_by_slide_leaves_its_own_patient_out(client, slides, engine):
    query = {"kind": "slide", "slide": slides["colon-nor-01"]["key"]}
    answer = ask(client, engine=engine, query=query, k=3)
    distances = [hit["distance"] for hit in answer["hits"]]
    assert [hit["rank"] for hit in answer["hits"]] == [1, 2, 3] and distances == sorted(distances)
    assert answer["candidates"] == 7 and "colon-nor-01" not in {hit["slide"]["id"] for hit in answer["hits"]}
    label = answer["votes"]["label"]
    assert label["confidence"] == pytest.approx(label["agreeing"] / label["hits"], abs=1e-4)
    itself = ask(client, engine=engine, query=query, k=1, include_same_patient=True)["hits"][0]
    assert itself["slide"]["id"] == "colon-nor-01" and itself["distance"] == pytest.approx(0, abs=1e-6)


def test_conditions_and_mode_narrow_a_search(client, slides):
    query = {"kind": "slide", "slide": slides["colon-nor-01"]["key"]}
    vertical = ask(client, engine="parts", query=query, mode="vertical", k=20)
    assert {hit["slide"]["site"] for hit in vertical["hits"]} == {"colon"} and vertical["candidates"] == 3
    where = ask(client, engine="parts", query=query, where=["label=ductal carcinoma"], k=20)
    assert {hit["slide"]["label"] for hit in where["hits"]} == {"ductal carcinoma"}
    wrong = client.post("/api/search", json={"engine": "parts", "query": query, "where": ["labl=x"]})
    assert wrong.status_code == 400 and "label" in wrong.json()["fix"]


@pytest.mark.parametrize("engine", ["pairs", "parts"])
def test_a_region_finds_its_own_slide_first_when_that_is_not_left_out(client, slides, engine):
    query = {"kind": "region", "slide": slides["breast-lob-02"]["key"], "x": 256, "y": 256, "width": 512, "height": 512}
    own = ask(client, engine=engine, query=query, include_same_patient=True, k=3)
    assert own["hits"][0]["slide"]["id"] == "breast-lob-02"
    others = ask(client, engine=engine, query=query, k=3)
    assert "breast-lob-02" not in {hit["slide"]["id"] for hit in others["hits"]}
    why = ask(client, "explain", engine=engine, query=query, hit=own["hits"][0]["slide"]["key"])
    assert all(x >= 256 and x + side <= 768 and y >= 256 and y + side <= 768 for x, y, side in why["query"]["boxes"])


def test_a_region_outside_the_slide_is_reported(client, slides):
    query = {"kind": "region", "slide": slides["breast-lob-02"]["key"], "x": 900, "y": 0, "width": 512, "height": 512}
    answer = client.post("/api/search", json={"engine": "parts", "query": query})
    assert answer.status_code == 400 and "1024 x 1024" in answer.json()["error"]


def test_contributions_of_both_sides_add_up_to_the_similarity(client, slides):
    query = {"kind": "slide", "slide": slides["colon-ade-01"]["key"]}
    for hit in ask(client, engine="parts", query=query, k=4)["hits"]:
        why = ask(client, "explain", engine="parts", query=query, hit=hit["slide"]["key"])
        assert why["kind"] == "contributions" and why["value"] == pytest.approx(1 - hit["distance"], abs=1e-5)
        for side in ("query", "hit"):
            assert len(why[side]["parts"]) == len(why[side]["boxes"]) > 4
            assert sum(why[side]["parts"]) == pytest.approx(why["value"], abs=1e-5)


def test_the_median_of_pairs_is_the_distance(client, slides):
    query = {"kind": "slide", "slide": slides["colon-ade-01"]["key"]}
    hit = ask(client, engine="pairs", query=query, k=1)["hits"][0]
    why = ask(client, "explain", engine="pairs", query=query, hit=hit["slide"]["key"])
    distances = [pair["distance"] for pair in why["pairs"]]
    assert why["value"] == hit["distance"] == np.median(distances) and distances == sorted(distances)
    assert [-part for part in why["query"]["parts"]] == [
        next(pair["distance"] for pair in why["pairs"] if pair["query"] == at) for at in range(len(distances))
    ]


def test_a_patch_cut_from_a_slide_finds_slides_of_its_kind(client, slides, painted_archive):
    with open_slide(painted_archive / "slides" / "colon-nor-02.svs") as opened:
        patch = opened.read((448, 448), 64, 1.0)
    buffer = io.BytesIO()
    Image.fromarray(patch).save(buffer, "PNG")
    kept = client.post("/api/patches", content=buffer.getvalue(), headers={"content-type": "image/png"})
    assert kept.status_code == 200 and (kept.json()["width"], kept.json()["height"]) == (64, 64)
    query = {"kind": "patch", "patch": kept.json()["patch"]}
    hits = ask(client, engine="pairs", query=query, k=2)["hits"]
    assert hits[0]["slide"]["site"] == "colon"
    assert ask(client, "explain", engine="pairs", query=query, hit=hits[0]["slide"]["key"])["kind"] == "pairs"
    assert picture(client.get(f"/api/patches/{query['patch']}")).shape == (64, 64, 3)
    lost = client.post("/api/search", json={"engine": "pairs", "query": {"kind": "patch", "patch": "0" * 32}})
    assert lost.status_code == 404 and "again" in lost.json()["fix"]


def test_an_engine_that_is_not_there_or_not_ready_is_reported(client, slides):
    query = {"kind": "slide", "slide": slides["colon-ade-01"]["key"]}
    nearest = client.post("/api/search", json={"engine": "pair", "query": query})
    assert nearest.status_code == 400 and "pairs" in nearest.json()["fix"]
    assert client.post("/api/search", json={"engine": "unready", "query": query}).status_code == 400


def test_searches_are_in_the_history(client, slides, painted_archive, slideseek):
    query = {"kind": "region", "slide": slides["breast-duc-02"]["key"], "x": 200, "y": 210, "width": 600, "height": 600}
    ask(client, engine="parts", query=query, k=2)
    told = slideseek("history", "-a", painted_archive, "--json").json
    assert any("200,210,600,600" in str(entry) and "breast-duc-02" in str(entry) for entry in told)


def test_an_uploaded_patch_is_logged_without_its_file_and_a_replay_says_that_it_is_gone(
    client, painted_archive, slideseek, tmp_path
):
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(3).integers(90, 220, (64, 64, 3)).astype(np.uint8)).save(buffer, "PNG")
    patch = client.post("/api/patches", content=buffer.getvalue()).json()["patch"]
    answer = ask(client, engine="pairs", query={"kind": "patch", "patch": patch}, k=3)
    assert answer["notes"] == ["the patient of the image is unknown: slides of the same patient are not excluded"]
    (entry,) = slideseek("history", "-a", painted_archive, "-n", 1, "--json").json
    assert entry["request"]["text"] == entry["answer"]["query"] == f"uploaded image {patch[:12]}"
    assert "slideseek-uploads" not in str(entry)
    again = slideseek("replay", entry["number"], "-a", painted_archive)
    assert again.code == 1 and "does not keep images" in again.err and "upload it again" in again.err
    page = tmp_path / "page.html"
    assert slideseek("report", entry["number"], "-a", painted_archive, "-o", page, "--identified").code == 0
    assert "cannot be run again" in page.read_text() and answer["hits"][0]["slide"]["id"] in page.read_text()


def test_thumbnails_are_whole_slides_of_at_most_the_size_of_an_overview(client, slides):
    address = f"/api/slides/{slides['colon-nor-01']['key']}/thumbnail"
    assert picture(client.get(address, params={"side": 512})).shape == (512, 512, 3)
    assert picture(client.get(address, params={"side": 100})).shape == (100, 100, 3)
    assert client.get(address, params={"side": 513}).status_code == 422


def test_options_are_for_one_search_and_re_ranked_hits_are_explained(client, slides):
    query = {"kind": "slide", "slide": slides["colon-ade-01"]["key"]}
    plain = ask(client, engine="two", query=query, k=2)
    assert "the 3 nearest of 7 candidates were re-ranked by 'set-cosine'" in plain["notes"]
    options = ["depth=5", "reranker.direction=target"]
    given = ask(client, engine="two", query=query, k=2, options=options)
    assert "the 5 nearest of 7 candidates were re-ranked by 'set-cosine'" in given["notes"]
    assert given["unit"] == "1 - cosine" and given["hits"] != plain["hits"]
    for asked, answer in ((options, given), ([], plain)):
        for hit in answer["hits"]:
            why = ask(client, "explain", engine="two", query=query, hit=hit["slide"]["key"], options=asked)
            assert why["kind"] == "pairs" and why["unit"] == "1 - cosine"
            assert why["value"] == pytest.approx(hit["distance"])
    assert ask(client, engine="two", query=query, k=2)["hits"] == plain["hits"]


@pytest.mark.parametrize(
    ("engine", "option", "status", "said"),
    [
        ("two", "dpeth=3", 400, "did you mean 'depth'"),
        ("two", "direction=target", 400, "write index.direction or reranker.direction"),
        ("pairs", "direction=both", 400, "direction: must be"),
        ("two", "depth=0", 400, "at least 1"),
        ("two", "depth", 400, "is not NAME=VALUE"),
        ("two", "depth=" + "9" * 200, 422, "options.0"),
        ("two", "depth=" + "[" * 90, 400, "depth: must be"),
        ("two", "", 422, "options.0"),
    ],
)
@pytest.mark.parametrize("route", ["search", "explain"])
def test_wrong_options_are_reported(client, slides, route, engine, option, status, said):
    body = {"engine": engine, "query": {"kind": "slide", "slide": slides["colon-ade-01"]["key"]}, "options": [option]}
    if route == "explain":
        body["hit"] = slides["colon-ade-02"]["key"]
    answer = client.post(f"/api/{route}", json=body)
    assert answer.status_code == status and said in answer.json()["error"]
    assert status == 422 or "NAME=VALUE" in answer.json()["fix"]
