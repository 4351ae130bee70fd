"""Collections with notes, annotations, and the files and lists that the page saves, over the API."""

import csv
import io
import shutil
import threading

import httpx
import pytest

from slideseek.errors import SlideseekError, UsageError
from slideseek_apps.viewer.allowed_files import AllowedFiles
from slideseek_apps.viewer.notebook import Notebook
from slideseek_apps.viewer.server import serving


def test_collections_are_kept_and_notes_changed(tmp_path):
    book = Notebook(tmp_path)
    assert book.collections() == [] and not (tmp_path / "notebook.sqlite").exists(), "looking writes nothing"
    made = book.create("  odd   ones ", "ann")
    book.put(made.id, "s1", "first", "ann")
    book.put(made.id, "s1", "better", "bob")
    book.put(made.id, "s2", "")
    assert [(one.name, one.slides) for one in Notebook(tmp_path).collections()] == [("odd ones", 2)]
    assert {one.slide_id: (one.note, one.who) for one in book.slides(made.id)} == {
        "s1": ("better", "bob"),
        "s2": ("", ""),
    }
    assert book.holding("s1") == {made.id: "better"}
    with pytest.raises(UsageError, match="already"):
        book.create("odd ones")
    book.rename(made.id, "odd")
    book.drop(made.id, "s2")
    book.delete(made.id)
    assert book.collections() == [] and book.holding("s1") == {}
    for missing in (lambda: book.slides(made.id), lambda: book.put(99, "s1", ""), lambda: book.rename(99, "x")):
        with pytest.raises(UsageError, match="no collection"):
            missing()
    with pytest.raises(UsageError, match="no name"):
        book.create("  ")


def test_two_people_do_not_overwrite_each_others_annotations(tmp_path):
    book, shape = Notebook(tmp_path), {"type": "Feature"}
    assert book.annotations("s1") == (0, [])
    assert book.annotate("s1", 0, [shape]) == 1
    with pytest.raises(SlideseekError, match="somebody else"):
        book.annotate("s1", 0, [])
    assert book.annotations("s1") == (1, [shape])


def test_many_writers_lose_nothing(tmp_path):
    book = Notebook(tmp_path)
    number = book.create("all").id

    def add(start):
        for at in range(start, start + 20):
            book.put(number, f"s{at}", "")

    threads = [threading.Thread(target=add, args=(20 * one,)) for one in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(book.slides(number)) == 80


def test_nothing_is_written_if_nothing_may_be(tmp_path):
    with pytest.raises(SlideseekError, match="--read-only"):
        Notebook(tmp_path, writable=False).create("x")
    assert not list(tmp_path.iterdir())


def test_a_collection_narrows_the_list_and_the_search(client, slides):
    number = client.post("/api/collections", json={"name": "pair"}).json()["id"]
    try:
        for name in ("colon-nor-01", "colon-nor-02"):
            put = client.put(f"/api/collections/{number}/slides/{slides[name]['key']}", json={"note": f"on {name}"})
            assert put.status_code == 200
        page = client.get("/api/slides", params={"collection": number}).json()
        assert page["total"] == 2 and set(page["notes"].values()) == {"on colon-nor-01", "on colon-nor-02"}
        query = {"kind": "slide", "slide": slides["breast-duc-01"]["key"]}
        asked = {"engine": "parts", "query": query, "among": {"collection": number}}
        hits = client.post("/api/search", json=asked).json()["hits"]
        assert {hit["slide"]["id"] for hit in hits} == {"colon-nor-01", "colon-nor-02"}
        table = client.get("/api/table", params={"collection": number}).text
        assert "colon-nor-01" not in table.split("\n", 1)[1].split(",")[0] and "on colon-nor-01" in table
    finally:
        client.delete(f"/api/collections/{number}")
    assert client.get("/api/slides", params={"collection": number}).status_code == 400


def test_filters_of_the_list_are_conditions_of_the_search(client, slides):
    query = {"kind": "slide", "slide": slides["breast-duc-01"]["key"]}

    def found(**among):
        answer = client.post("/api/search", json={"engine": "parts", "query": query, "k": 20, "among": among})
        assert answer.status_code == 200, answer.text
        return {hit["slide"]["id"] for hit in answer.json()["hits"]}

    def listed(**among):
        return {slide["id"] for slide in client.get("/api/slides", params=among).json()["slides"]} - {"breast-duc-01"}

    ranges = {one["name"]: one for one in client.get("/api/facets").json() if one["low"] is not None}
    middle = (ranges["blur_um"]["low"] + ranges["blur_um"]["high"]) / 2
    for among in (
        {"text": "carcinoma"},
        {"text": "colon-nor"},
        {"facet": ["label=normal mucosa", "label=lobular carcinoma"], "text": "breast"},
        {"range": [f"blur_um={middle}.."]},
        {"range": [f"blur_um=..{middle}"], "facet": ["site=colon"]},
    ):
        assert found(**among) == listed(**among) != set(), among
    for wrong in ({"range": ["blur_um=x.."]}, {"range": ["blur_um=3"]}, {"range": ["nothing=1..2"]}):
        asked = {"engine": "parts", "query": query, "among": wrong}
        assert client.post("/api/search", json=asked).status_code == 400


def test_slides_are_sorted_by_any_field(client):
    for field in ("patient", "blur_um"):
        rising = client.get("/api/slides", params={"sort": field}).json()["slides"]
        falling = client.get("/api/slides", params={"sort": field, "falling": True}).json()["slides"]

        def value(slide, field=field):
            return slide[field] if field == "patient" else float(slide["measured"][field])

        assert [value(one) for one in rising] == sorted(map(value, rising))
        assert [value(one) for one in falling] == sorted(map(value, falling), reverse=True)
    wrong = client.get("/api/slides", params={"sort": "pateint"})
    assert wrong.status_code == 400 and "patient" in wrong.json()["fix"]


def test_tables_have_pseudonyms_unless_asked_otherwise(client):
    plain = list(csv.DictReader(io.StringIO(client.get("/api/table").text)))
    real = list(csv.DictReader(io.StringIO(client.get("/api/table", params={"identified": True}).text)))
    assert len(plain) == len(real) == 8
    assert all(row["slide_id"].startswith("S-") and "blur_um" not in row for row in plain)
    assert {row["slide_id"] for row in real} >= {"colon-nor-01"} and "blur_um" in real[0]


@pytest.fixture(scope="module")
def with_files(painted_archive, tmp_path_factory):
    """A server that may read slide files of a folder, with a link that leads out of it."""
    folder = tmp_path_factory.mktemp("incoming")
    shutil.copy(painted_archive / "slides" / "colon-nor-01.svs", folder / "new.svs")
    with (folder / "new.svs").open("ab") as file:
        file.write(b"\0")  # another content: it is no slide of the archive
    (folder / "out.svs").symlink_to(painted_archive / "slides" / "colon-nor-02.svs")
    with (
        serving(painted_archive, files=[folder], logged=False) as running,
        httpx.Client(
            base_url=running.origin, headers={"authorization": f"Bearer {running.token}"}, timeout=60, trust_env=False
        ) as client,
    ):
        yield client, folder


def test_a_file_of_an_allowed_folder_is_searched_with_and_looked_at(with_files, painted_archive):
    client, folder = with_files
    (file,) = client.get("/api/files").json()
    assert file["name"] == f"{folder.name}/new.svs", "the link that leads out is not listed"
    answer = client.post("/api/search", json={"engine": "parts", "query": {"kind": "slide", "slide": file["key"]}})
    assert answer.status_code == 200 and len(answer.json()["hits"]) == 8
    assert answer.json()["query"]["id"] == file["name"]
    detail = client.get(f"/api/slides/{file['key']}")
    assert detail.json()["slide"]["id"] == file["name"] and detail.json()["image"]["width"] == 1024
    assert client.get(f"/api/slides/{file['key']}/thumbnail").status_code == 200
    region = {"kind": "region", "slide": file["key"], "x": 256, "y": 256, "width": 512, "height": 512}
    inside = client.post("/api/search", json={"engine": "parts", "query": region})
    assert inside.status_code == 200
    for text in (answer.text, detail.text, inside.text):
        assert str(folder.parent) not in text and str(painted_archive) not in text


def test_a_read_only_server_keeps_no_collection(with_files):
    client, _ = with_files
    assert client.get("/api/archive").json()["writable"] is False
    refused = client.post("/api/collections", json={"name": "x"})
    assert refused.status_code == 409 and "--read-only" in refused.json()["error"]


def test_no_other_file_is_allowed(tmp_path):
    (tmp_path / "in").mkdir()
    files = AllowedFiles([tmp_path / "in"])
    assert files.names() == {} and files.get("a" * 24) is None and not files.holds(str(tmp_path / "x.svs"))
    assert not AllowedFiles()


def test_past_searches_say_how_to_repeat_them(client, slides):
    query = {"kind": "slide", "slide": slides["colon-nor-01"]["key"]}
    body = {"engine": "parts", "query": query, "k": 3, "relevant": [slides["colon-nor-02"]["key"]]}
    client.post("/api/search", json=body)
    latest = client.get("/api/searches", params={"count": 1}).json()[0]
    assert latest["title"] == "colon-nor-01 + 1 relevant, 0 not" and latest["engine"] == "parts"
    marked = slides["colon-nor-02"]["key"]
    assert latest["address"] == {
        "slide": query["slide"],
        "engine": "parts",
        "k": "3",
        "mode": "horizontal",
        "good": marked,
        "more": marked,
    }
