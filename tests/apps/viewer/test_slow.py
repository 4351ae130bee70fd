"""What is slow holds up nobody else: slides that take minutes to decode, and clients that never finish a request."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import numpy as np
import pytest
from PIL import Image

from reliability.hostile_slides import CONFIG, levelless_tiff
from slideseek.cli import main
from slideseek_apps.viewer.server import serving
from slideseek_apps.viewer.slow_clients import MAX_WAITING


@pytest.fixture(scope="module")
def slow_archive(tmp_path_factory):
    """An archive of one ordinary slide and one that takes minutes to show."""
    base = tmp_path_factory.mktemp("slow")
    slides, archive = base / "slides", base / "archive"
    slides.mkdir()
    (base / "engines.toml").write_text(CONFIG)
    levelless_tiff(slides / "huge.tif")
    tissue = np.random.default_rng(0).integers([150, 60, 120], [230, 130, 190], (2048, 2048, 3)).astype(np.uint8)
    Image.fromarray(tissue).save(slides / "plain.png", dpi=(50_800, 50_800))
    for command in (("init", archive, "--config", base / "engines.toml"), ("add", slides, "-a", archive)):
        with pytest.raises(SystemExit) as done:
            main([str(part) for part in command])
        assert done.value.code == 0
    return archive


@pytest.mark.slow
def test_a_slide_that_takes_minutes_holds_up_neither_others_nor_the_end(slow_archive, tmp_path):
    assert (slow_archive.parent / "slides" / "huge.tif").stat().st_size < 5_100_000
    command = [sys.executable, "-m", "slideseek", "serve", str(slow_archive), "--port", "0", "--json"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        headers = {"authorization": f"Bearer {told['token']}"}
        with httpx.Client(base_url=told["origin"], headers=headers, trust_env=False, timeout=60) as client:
            keys = {slide["id"]: slide["key"] for slide in client.get("/api/slides").json()["slides"]}
            places = ["thumbnail", *(f"tiles/{level}/0/0" for level in range(8))]

            def ask(place):
                with contextlib.suppress(httpx.HTTPError):  # the server is stopped meanwhile
                    address = f"{told['origin']}/api/slides/{keys['huge']}/{place}"
                    httpx.get(address, headers=headers, trust_env=False, timeout=60)

            asking = [threading.Thread(target=ask, args=(place,)) for place in places]
            for thread in asking:
                thread.start()
            time.sleep(1)
            begun = time.monotonic()
            assert client.get(f"/api/slides/{keys['plain']}/thumbnail").status_code == 200
            assert client.get(f"/api/slides/{keys['plain']}/tiles/11/3/3").status_code == 200
            assert time.monotonic() - begun < 8  # it took over 90 s when all threads drew the huge one
            assert any(thread.is_alive() for thread in asking)
            begun = time.monotonic()
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=30)
            assert time.monotonic() - begun < 8  # it took 60 s
            assert process.returncode == 0 and "stopped" in said and "Traceback" not in said
            assert not list(tmp_path.glob("slideseek-*"))
        for thread in asking:
            thread.join()
    finally:
        process.kill()


def test_what_took_too_long_is_refused_with_its_cause_and_not_tried_again(slow_archive, monkeypatch):
    monkeypatch.setattr("slideseek_apps.viewer.tiles.DRAW_SECONDS", 1.0)
    with serving(slow_archive) as running:
        headers = {"authorization": f"Bearer {running.token}"}
        with httpx.Client(base_url=running.origin, headers=headers, trust_env=False, timeout=60) as client:
            key = next(one["key"] for one in client.get("/api/slides").json()["slides"] if one["id"] == "huge")
            first = client.get(f"/api/slides/{key}/thumbnail")
            assert first.status_code == 409 and "took more than 1 s" in first.json()["error"]
            assert "pyramidal" in first.json()["fix"]
            begun = time.monotonic()
            assert client.get(f"/api/slides/{key}/tiles/3/0/0").json() == first.json()
            assert time.monotonic() - begun < 1
            assert client.get(f"/api/slides/{key}/tiles/18/300/300").status_code == 200  # full detail is there


def test_a_thousand_half_sent_requests_leave_room_for_a_user(client, viewer):
    half = f"GET /api/archive HTTP/1.1\r\nhost: 127.0.0.1:{viewer.port}\r\nx-slow: ".encode()
    flood = []
    try:
        for _ in range(1000):
            one = socket.create_connection(("127.0.0.1", viewer.port), timeout=20)
            one.sendall(half)
            flood.append(one)
        for _ in range(20):
            with httpx.Client(trust_env=False, timeout=20) as fresh:  # a new connection each time
                answer = fresh.get(f"{viewer.origin}/api/archive", headers={"authorization": f"Bearer {viewer.token}"})
                assert answer.status_code == 200
        closed = 0
        for one in flood:
            one.setblocking(False)
            try:
                closed += one.recv(1) == b""
            except BlockingIOError:
                pass
            except ConnectionError:
                closed += 1
        assert 1000 - MAX_WAITING <= closed <= 1000
    finally:
        for one in flood:
            one.close()


def test_a_request_that_never_ends_is_closed(painted_archive, monkeypatch):
    monkeypatch.setattr("slideseek_apps.viewer.slow_clients.SlowClients.__init__.__defaults__", (MAX_WAITING, 0.5))
    with serving(painted_archive) as running:
        head = f"POST /api/patches HTTP/1.1\r\nhost: 127.0.0.1:{running.port}\r\nauthorization: Bearer {running.token}"
        for sent in (b"", b"GET / HT", f"{head}\r\ncontent-length: 1000\r\n\r\nabc".encode()):
            with socket.create_connection(("127.0.0.1", running.port), timeout=10) as one:
                one.sendall(sent)
                with contextlib.suppress(ConnectionError):
                    assert one.recv(100) == b""
