"""The server shows the archive as it is, not as it was when it started."""

import httpx
import pytest

from slideseek_apps.viewer import archive_watcher
from slideseek_apps.viewer.server import serving


@pytest.fixture
def copied(copy_of, tmp_path, monkeypatch):
    monkeypatch.setattr(archive_watcher, "LOOK_EVERY_SECONDS", 0.0)
    return copy_of(tmp_path / "copy")


def test_slides_that_come_and_go_are_seen_without_a_restart(copied, slideseek):
    with serving(copied) as running:
        client = httpx.Client(
            base_url=running.origin, headers={"authorization": f"Bearer {running.token}"}, trust_env=False, timeout=60
        )
        slides = {slide["id"]: slide["key"] for slide in client.get("/api/slides").json()["slides"]}
        query = {"kind": "slide", "slide": slides["colon-ade-01"]}
        before = client.post("/api/search", json={"engine": "parts", "query": query, "k": 50}).json()
        assert slideseek("remove", "colon-ade-02", "-a", copied).code == 0
        after = client.post("/api/search", json={"engine": "parts", "query": query, "k": 50}).json()
        assert {hit["slide"]["id"] for hit in before["hits"]} - {hit["slide"]["id"] for hit in after["hits"]} == {
            "colon-ade-02"
        }
        assert client.get("/api/slides").json()["total"] == 7
        assert client.get(f"/api/slides/{slides['colon-ade-02']}").status_code == 404


def test_a_slide_whose_file_is_gone_is_listed_and_reported(copied):
    (copied / "slides" / "colon-nor-01.svs").unlink()
    with serving(copied) as running:
        client = httpx.Client(
            base_url=running.origin, headers={"authorization": f"Bearer {running.token}"}, trust_env=False, timeout=60
        )
        slide = next(one for one in client.get("/api/slides").json()["slides"] if one["id"] == "colon-nor-01")
        detail = client.get(f"/api/slides/{slide['key']}").json()
        assert detail["image"] is None and "does not exist" in detail["problem"]["error"]
        assert str(copied) not in str(detail)
        tile = client.get(f"/api/slides/{slide['key']}/tiles/10/0/0")
        assert tile.status_code == 409 and str(copied.parent) not in tile.text
        found = client.post("/api/search", json={"engine": "parts", "query": {"kind": "slide", "slide": slide["key"]}})
        assert found.status_code == 200 and found.json()["hits"]
