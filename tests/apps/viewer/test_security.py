"""Nothing is served to another page, without the token, from outside the archive, or without a bound."""

import asyncio
import io
import socket
import struct
import zlib

import httpx
import numpy as np
import openslide
import pytest
import tifffile
from PIL import Image

from slideseek_apps.viewer.server import serving


@pytest.fixture(scope="module")
def stranger(viewer):
    """A client without the token."""
    with httpx.Client(base_url=viewer.origin, timeout=60, trust_env=False) as made:
        yield made


PROTECTED = ("/api/archive", "/api/slides", "/api/openapi.json", "/static/js/main.js", "/static/icon.svg")


@pytest.mark.parametrize("path", PROTECTED)
def test_without_the_token_nothing_is_revealed(stranger, path):
    for headers in ({}, {"authorization": "Bearer wrong"}, {"cookie": "slideseek=x"}, {"authorization": "Basic x"}):
        answer = stranger.get(path, headers=headers)
        assert answer.status_code == 401 and "colon" not in answer.text


def test_the_address_printed_sets_a_cookie_once_and_loses_its_token(viewer):
    with httpx.Client(trust_env=False) as browser:
        first = browser.get(f"{viewer.origin}/?slide=abc&token={viewer.token}&heat=1")
        assert first.status_code == 303 and first.headers["location"] == "/?slide=abc&heat=1"
        cookie = first.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Path=/" in cookie
        page = browser.get(viewer.origin + "/")
        assert page.status_code == 200 and "text/html" in page.headers["content-type"] and viewer.token not in page.text
        assert browser.get(viewer.origin + "/api/archive").status_code == 200
    assert httpx.get(f"{viewer.origin}/?token=wrong", trust_env=False).status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost", "127.0.0.1.nip.io:{port}", ""])
def test_a_foreign_host_name_is_refused_even_with_the_token(client, viewer, host):
    answer = client.get("/api/archive", headers={"host": host.format(port=viewer.port)})
    assert 400 <= answer.status_code < 500 and "archive" not in answer.json().get("name", "")


def test_localhost_is_this_machine_too(client, viewer):
    assert client.get("/api/archive", headers={"host": f"localhost:{viewer.port}"}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1"])
def test_a_foreign_origin_is_refused_even_with_the_token(client, slides, origin):
    body = {"engine": "parts", "query": {"kind": "slide", "slide": slides["colon-ade-01"]["key"]}}
    assert client.post("/api/search", json=body, headers={"origin": origin}).status_code == 403
    assert client.get("/api/archive", headers={"origin": origin}).status_code == 403
    assert client.options("/api/search", headers={"origin": origin}).status_code == 403


def test_pictures_cannot_be_drawn_into_other_pages(client, slides, viewer):
    path = f"/api/slides/{slides['colon-ade-01']['key']}/thumbnail"
    for site in ("cross-site", "same-site"):
        assert client.get(path, headers={"sec-fetch-site": site}).status_code == 403
    own = client.get(path, headers={"sec-fetch-site": "same-origin", "origin": viewer.origin})
    assert own.status_code == 200 and own.headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize("path", ["/", "/api/archive", "/api/none", "/static/js/main.js", "/api/slides/x"])
def test_every_answer_carries_the_security_headers(client, stranger, path):
    for answer in (client.get(path), stranger.get(path), client.get(path, headers={"host": "evil"})):
        policy = answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy and "default-src 'none'" in policy and "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in answer.headers


OUTSIDE = [
    "..%2f..%2f..%2fetc%2fpasswd",
    "../../../../etc/passwd",
    "%2e%2e/%2e%2e/etc/passwd",
    "..%5c..%5cetc%5cpasswd",
    "%2fetc%2fpasswd",
    "/etc/passwd",
    "catalog.sqlite",
    "../catalog.sqlite",
    "%00",
    "js/main.js%00",
    "C:%5cwindows%5cwin.ini",
    "colon-ade-01",
    "a" * 5000,
]


def raw_get(viewer, target):
    """Send a target as it is: clients tidy up `..` before they send it."""
    with socket.create_connection(("127.0.0.1", viewer.port), timeout=20) as line:
        head = f"GET {target} HTTP/1.1\r\nhost: 127.0.0.1:{viewer.port}\r\nauthorization: Bearer {viewer.token}\r\n"
        line.sendall(f"{head}connection: close\r\n\r\n".encode())
        got = b""
        while part := line.recv(65536):
            got += part
    return int(got.split(b" ", 2)[1]), got


@pytest.mark.parametrize("name", OUTSIDE)
def test_names_outside_the_archive_lead_nowhere(viewer, name):
    for target in (f"/static/{name}", f"/api/slides/{name}", f"/api/slides/{name}/thumbnail", f"/api/patches/{name}"):
        status, got = raw_get(viewer, target)
        assert 400 <= status < 500, (target, status)
        assert b"root:" not in got and b"SQLite format" not in got


@pytest.mark.parametrize(
    "place",
    ["10/1000000000/0", "10/0/1000000000", "1000000000/0/0", "-1/0/0", "10/-1/0", "10/1e9/0", "x/0/0", "10/0/39000"],
)
def test_tiles_that_do_not_exist_are_refused(client, slides, place):
    answer = client.get(f"/api/slides/{slides['colon-ade-01']['key']}/tiles/{place}")
    assert answer.status_code in (404, 422)


@pytest.mark.parametrize("asked", ["side=100000", "side=0", "side=-5", "side=1e9"])
def test_thumbnails_are_small(client, slides, asked):
    assert client.get(f"/api/slides/{slides['colon-ade-01']['key']}/thumbnail?{asked}").status_code == 422


def test_a_body_that_is_too_large_is_refused_before_it_is_read(client, viewer):
    large = b"x" * (17 * 2**20)
    assert client.post("/api/patches", content=large).status_code == 413

    def endless():
        for _ in range(40):
            yield b"x" * 2**20

    try:
        answer = client.post("/api/patches", content=endless())  # no length is stated
        assert answer.status_code == 413
    except httpx.WriteError:
        pass  # the server hung up while more was being sent
    assert client.get("/api/archive").status_code == 200


def png(width, height, raw):
    def part(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(raw)) + part(b"IEND", b"")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(png(60000, 60000, bytes(10**7)), id="bomb by size"),
        pytest.param(png(5000, 64, bytes(5001 * 64)), id="too wide"),
        pytest.param(png(64, 64, bytes(5 * 10**7)), id="more pixels than stated"),
        pytest.param(png(64, 64, b"")[:60], id="cut off"),
        pytest.param(png(3, 3, bytes(12)), id="too small"),
        pytest.param(b"", id="empty"),
        pytest.param(b"<svg xmlns='http://www.w3.org/2000/svg'/>", id="svg"),
        pytest.param(b"II*\0" + bytes(1000), id="tiff"),
        pytest.param(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n", id="eps"),
    ],
)
def test_a_patch_that_is_no_sound_small_image_is_refused(client, data):
    answer = client.post("/api/patches", content=data, headers={"content-type": "image/png"})
    if answer.status_code == 200:  # what is beyond the stated pixels is not decoded
        assert (answer.json()["width"], answer.json()["height"]) == (64, 64)
    else:
        assert answer.status_code == 400 and "PNG, JPEG or WebP" in answer.json()["fix"]


def test_what_is_uploaded_is_re_encoded_without_its_metadata(client):
    image = Image.fromarray(np.full((64, 64, 3), 128, np.uint8))
    buffer = io.BytesIO()
    exif = Image.Exif()
    exif[0x010E] = "patient name"
    image.save(buffer, "JPEG", exif=exif)
    assert b"patient name" in buffer.getvalue()
    kept = client.post("/api/patches", content=buffer.getvalue()).json()
    assert b"patient name" not in client.get(f"/api/patches/{kept['patch']}").content


def test_a_flood_of_tiles_is_bounded_and_the_server_stays_up(client, slides, viewer):
    keys = [slide["key"] for slide in slides.values()]
    head = f"host: 127.0.0.1:{viewer.port}\r\nauthorization: Bearer {viewer.token}\r\nconnection: close\r\n\r\n"

    async def one(at):
        """Return the status of one tile, 0 when the connection is refused; every request has its own connection."""
        target = f"/api/slides/{keys[at % 8]}/tiles/10/{at // 8 % 4}/{at // 32 % 4}"
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", viewer.port)
            writer.write(f"GET {target} HTTP/1.1\r\n{head}".encode())
            status = int((await reader.readline()).split()[1])
            await reader.read()
            writer.close()
            return status
        except (OSError, IndexError):
            return 0

    async def flood(count):
        return await asyncio.wait_for(asyncio.gather(*(one(at) for at in range(count))), timeout=60)

    assert set(asyncio.run(flood(900))) <= {200, 503, 0}  # more at once than is taken on
    statuses = asyncio.run(flood(150))
    assert set(statuses) <= {200, 503} and statuses.count(200) > 50
    assert client.get("/api/archive").status_code == 200
    assert len(client.get(f"/api/slides/{keys[0]}/tiles/10/1/1").content) > 500


def test_label_and_macro_images_are_never_served(tmp_path, slideseek, tiny_config):
    """A slide whose label is bright green: nothing green comes out of any picture."""
    rng = np.random.default_rng(0)
    tissue = np.full((512, 768, 3), 240, np.uint8)
    tissue[100:400, 150:600] = rng.integers([150, 60, 120], [230, 130, 190], (300, 450, 3))
    green = np.zeros((128, 256, 3), np.uint8)
    green[..., 1] = 255
    path = tmp_path / "slides" / "labelled.svs"
    path.parent.mkdir()
    with tifffile.TiffWriter(path) as writer:
        said = "Aperio Image Library v11\r\n{}|AppMag = 20|MPP = 0.5"
        tiled = {"tile": (128, 128), "photometric": "rgb", "compression": "jpeg", "metadata": None}
        writer.write(tissue, description=said.format("768x512"), **tiled)
        strips = {"photometric": "rgb", "compression": "lzw", "rowsperstrip": 128, "metadata": None}
        writer.write(tissue[::4, ::4].copy(), description=said.format("thumbnail"), **strips)
        writer.write(green, description="Aperio Image Library v11\r\nlabel 256x128", subfiletype=1, **strips)
        writer.write(green, description="Aperio Image Library v11\r\nmacro 256x128", subfiletype=9, **strips)
    with openslide.OpenSlide(path) as opened:
        assert {"label", "macro"} <= set(opened.associated_images)
    archive = tmp_path / "archive"
    assert slideseek("init", archive, "--config", tiny_config).code == 0
    assert slideseek("add", path, "-a", archive).code == 0
    with serving(archive) as running:
        client = httpx.Client(
            base_url=running.origin, headers={"authorization": f"Bearer {running.token}"}, trust_env=False, timeout=60
        )
        key = client.get("/api/slides").json()["slides"][0]["key"]
        detail = client.get(f"/api/slides/{key}").json()["image"]
        paths = [
            f"tiles/{level}/{column}/{row}"
            for level in range(detail["levels"])
            for column in range(3)
            for row in range(2)
        ]
        pictures = [client.get(f"/api/slides/{key}/{path}") for path in ("thumbnail", *paths)]
        seen = [np.asarray(Image.open(io.BytesIO(one.content))) for one in pictures if one.status_code == 200]
        assert len(seen) > 10
        for image in seen:
            red, level_green = image[..., 0].astype(int), image[..., 1].astype(int)
            assert not (level_green > red + 60).any()
        for name in ("label", "macro", "associated/label", "thumbnail/label"):
            assert client.get(f"/api/slides/{key}/{name}").status_code == 404
