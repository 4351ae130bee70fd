"""A team behind a reverse proxy: who asks is logged, several archives have one address, read-only writes nothing."""

import httpx
import pytest

from slideseek.archive.archive import Archive
from slideseek.searching.query_log import open_log
from slideseek_apps.viewer.access_control import SECRET_HEADER, Proxy
from slideseek_apps.viewer.server import serving
from slideseek_apps.viewer.several_archives import names_of

SECRET = "s" * 32
PROXY = Proxy("https://slides.example.org", "X-Remote-User", SECRET)
THROUGH = {"host": "slides.example.org", SECRET_HEADER: SECRET, "X-Remote-User": "dr.who"}


@pytest.fixture(scope="module")
def copied(copy_of, tmp_path_factory):
    return copy_of(tmp_path_factory.mktemp("team") / "archive")


def asked(root):
    with Archive(root) as archive:
        return [entry.who for entry in open_log(archive).last()]


def search(client, headers, base=""):
    slide = client.get(f"{base}/api/slides?limit=1", headers=headers).json()["slides"][0]["key"]
    body = {"engine": "parts", "query": {"kind": "slide", "slide": slide}}
    return client.post(f"{base}/api/search", json=body, headers=headers)


def test_the_proxys_user_is_let_in_and_logged(copied):
    with serving(copied, proxy=PROXY) as running, httpx.Client(base_url=running.origin, trust_env=False) as client:
        answer = search(client, THROUGH | {"origin": "https://slides.example.org"})
        assert answer.status_code == 200 and answer.json()["hits"]
        assert asked(copied)[-1] == "dr.who"
        assert "slideseek" in client.get("/", headers=THROUGH).text


@pytest.mark.parametrize(
    "changed",
    [
        {SECRET_HEADER: "x" * 32},
        {SECRET_HEADER: ""},
        {"X-Remote-User": ""},
        {"X-Remote-User": "a" * 300},
        {"host": "other.example.org"},
        {"origin": "https://evil.example"},
    ],
)
def test_a_request_that_the_proxy_did_not_send_is_refused(copied, changed):
    with serving(copied, proxy=PROXY) as running:
        answer = httpx.get(f"{running.origin}/api/slides", headers=THROUGH | changed, trust_env=False)
        assert answer.status_code in (401, 403, 421) and "colon" not in answer.text


def test_without_a_proxy_its_headers_mean_nothing(viewer):
    headers = {SECRET_HEADER: SECRET, "X-Remote-User": "dr.who"}
    assert httpx.get(f"{viewer.origin}/api/slides", headers=headers, trust_env=False).status_code == 401


def test_read_only_writes_nothing(copied):
    before = asked(copied)
    with serving(copied, logged=False) as running, httpx.Client(base_url=running.origin, trust_env=False) as client:
        assert search(client, {"authorization": f"Bearer {running.token}"}).json()["hits"]
    assert asked(copied) == before


def test_several_archives_have_one_address(copied, painted_archive):
    with serving(copied, painted_archive) as running:
        headers = {"authorization": f"Bearer {running.token}"}
        with httpx.Client(base_url=running.origin, trust_env=False) as client:
            page = client.get("/", headers=headers).text
            assert 'href="a/archive/"' in page and 'href="a/archive%20of%20slides/"' in page
            assert client.get("/a/archive", headers=headers).headers["location"] == "/a/archive/"
            assert 'src="static/js/main.js"' in client.get("/a/archive/", headers=headers).text
            assert client.get("/a/archive/static/js/main.js", headers=headers).status_code == 200
            assert client.get("/a/archive/api/archive", headers=headers).json()["name"] == "archive"
            assert search(client, headers, "/a/archive%20of%20slides").json()["hits"]
            assert client.get("/a/other/api/archive", headers=headers).status_code == 404
            assert client.get("/a/archive/api/archive").status_code == 401


def test_archives_of_one_name_get_a_number(tmp_path):
    roots = [tmp_path / "a" / "x", tmp_path / "b" / "x"]
    assert names_of(roots) == {"x": roots[0], "x 2": roots[1]}


def test_the_page_that_opens_the_browser_is_this_users_alone(copied):
    with serving(copied) as running:
        assert running.token in running.entrance.read_text()
        assert running.entrance.parent.stat().st_mode & 0o077 == 0
    assert not running.entrance.exists()


@pytest.mark.parametrize(
    ("given", "secret", "said"),
    [
        (("--public-url", "slides.example.org"), SECRET, "without a path"),
        (("--public-url", "https://slides.example.org/viewer"), SECRET, "without a path"),
        (("--public-url", "https://slides.example.org"), "short", "SLIDESEEK_PROXY_SECRET has 5 characters"),
        (("--public-url", "https://x.org", "--user-header", "a b"), SECRET, "the name of a header"),
    ],
)
def test_what_is_given_wrong_is_said(copied, slideseek, monkeypatch, given, secret, said):
    monkeypatch.setenv("SLIDESEEK_PROXY_SECRET", secret)
    done = slideseek("serve", copied, *given)
    assert done.code == 2 and said in done.err
