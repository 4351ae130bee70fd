"""The viewer under attack: what it refuses, what it bounds, and whether its user is still served."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
from PIL import Image

from reliability.hostile_files import call
from reliability.hostile_slides import CONFIG, levelless_tiff, png, tissue
from reliability.row import Effort, Figure, Row

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'"
END_SECONDS = 5.0
OUTSIDE = (
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "/etc/passwd",
    "catalog.sqlite",
    "%00",
)


@dataclass(frozen=True)
class Served:
    """A running `slideseek serve`. keys: of its slides, by id."""

    process: subprocess.Popen[str]
    origin: str
    token: str
    keys: dict[str, str]

    @property
    def port(self) -> int:
        """Its port."""
        return int(self.origin.rpartition(":")[2])

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Ask as its user, over a new connection."""
        known = {"authorization": f"Bearer {self.token}", **headers}
        return httpx.get(f"{self.origin}{path}", headers=known, trust_env=False, timeout=30)

    def raw(self, text: str) -> bytes:
        """Send bytes as they are, and return all that comes back."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as line:
            line.sendall(text.encode("latin1"))
            got = b""
            with contextlib.suppress(OSError):
                while part := line.recv(65536):
                    got += part
        return got


def start(effort: Effort) -> Served:
    """Make an archive with a script in every field and a slide of 40 gigapixels, and serve it."""
    slides, archive = effort.work / "slides", effort.work / "archive"
    slides.mkdir()
    levelless_tiff(slides / "huge.tif")
    rows = ["slide_id,path,case_id,primary_site,diagnosis,center,mpp,remark", "huge,huge.tif,h,x,x,x,0.5,x"]
    quoted = '"' + SCRIPT.replace('"', '""') + '"'
    for number in range(3):
        Image.fromarray(np.roll(tissue(1024), 99 * number, 0)).save(slides / f"s{number}.png")
        name = '"' + f"s{number} {SCRIPT}".replace('"', '""') + '"'
        rows.append(f"{name},s{number}.png,p{number},{quoted},{quoted},{quoted},0.5,{quoted}")
    (effort.work / "manifest.csv").write_text("\n".join(rows) + "\n")
    (effort.work / "engines.toml").write_text(CONFIG)
    for words in (
        ["init", archive, "--config", effort.work / "engines.toml"],
        ["add", slides, "--manifest", effort.work / "manifest.csv", "-a", archive],
    ):
        code, text = call(words)
        if code:
            raise RuntimeError(text)
    environment = {**os.environ, "SLIDESEEK_SLIDE_SECONDS": "5"}
    line = [sys.executable, "-m", "slideseek"]
    subprocess.run([*line, "build", "-a", str(archive)], env=environment, capture_output=True)
    process = subprocess.Popen(
        [*line, "serve", str(archive), "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(effort.work)},
    )
    assert process.stdout is not None
    said = json.loads(process.stdout.readline())
    served = Served(process, said["origin"], said["token"], {})
    served.keys.update({one["id"]: one["key"] for one in served.get("/api/slides").json()["slides"]})
    return served


def refusals(served: Served) -> Iterator[tuple[str, bool]]:
    """Yield attacks that must be refused, and whether each was."""
    head = f"host: 127.0.0.1:{served.port}\r\nauthorization: Bearer {served.token}\r\nconnection: close\r\n"
    for host in ("evil.example", f"evil.example:{served.port}", "localhost", ""):
        yield f"host {host!r}", served.get("/api/archive", host=host).status_code in (400, 421)
    for origin in ("https://evil.example", "null", "http://localhost:1"):
        yield f"origin {origin}", served.get("/api/archive", origin=origin).status_code == 403
        answer = httpx.post(
            f"{served.origin}/api/search", json={}, headers={"origin": origin}, trust_env=False, timeout=30
        )
        yield f"post from {origin}", answer.status_code == 403
    for path in ("/api/archive", "/api/slides", "/static/js/main.js"):
        for given in ("", "Bearer wrong", "Basic eDp5"):
            answer = httpx.get(f"{served.origin}{path}", headers={"authorization": given}, trust_env=False, timeout=30)
            yield f"{path} with {given!r}", answer.status_code == 401
    for name in OUTSIDE:
        for place in ("/static/", "/api/slides/", "/api/patches/"):
            got = served.raw(f"GET {place}{name} HTTP/1.1\r\n{head}\r\n")
            refused = re.match(rb"HTTP/1.1 4\d\d", got) and b"root:" not in got and b"SQLite format" not in got
            yield f"traversal {place}{name}", bool(refused)
    for where in ("//evil.example", "/%2fevil.example", "/\\evil.example", "/?next=//evil.example"):
        got = served.raw(f"GET {where} HTTP/1.1\r\n{head}\r\n")
        places = re.findall(rb"(?im)^location: *(\S+)", got)
        yield f"redirect {where}", all(one.startswith(b"/") and not one.startswith(b"//") for one in places)
    for name in ("?token={t}&x=%0d%0aset-cookie:%20evil=1", "?token={t}&%0d%0aevil:%201"):
        got = served.raw(f"GET /{name.format(t=served.token)} HTTP/1.1\r\n{head}\r\n")
        yield f"header injection {name}", not re.search(rb"(?im)^(evil:|set-cookie: *evil)", got)
    yield "header with a line break", b" 400 " in served.raw(f"GET / HTTP/1.1\r\n{head}x: a\rb\r\n\r\n")[:40]
    large = f"POST /api/patches HTTP/1.1\r\n{head}content-length: 99999999999\r\n\r\n"
    yield "upload of 100 GB", b" 413 " in served.raw(large)[:40]
    bombs = (png(60_000, 60_000, bytes(10**6)), png(4000, 40_000, bytes(10**6)), b"GIF89a" + bytes(100), b"")
    for data in bombs:
        answer = httpx.post(
            f"{served.origin}/api/patches",
            content=data,
            headers={"authorization": f"Bearer {served.token}", "content-type": "image/png"},
            trust_env=False,
            timeout=30,
        )
        yield f"bomb of {len(data)} bytes", answer.status_code in (400, 413)


def scripts(served: Served, archive: Path, folder: Path) -> Iterator[tuple[str, bool]]:
    """Yield places where a script in the metadata could run, and whether it cannot."""
    page = served.get("/")
    yield "page allows scripts of its own only", "script-src 'self'" in page.headers["content-security-policy"]
    yield "page has no metadata", "alert(1)" not in page.text
    for path in ("/api/slides", "/api/facets", "/api/archive", *(f"/api/slides/{key}" for key in served.keys.values())):
        answer = served.get(path)
        plain = answer.headers["content-type"].startswith("application/json")
        yield f"{path} is JSON, not sniffed", plain and answer.headers["x-content-type-options"] == "nosniff"
    name = next(one for one in served.keys if one.startswith("s0"))
    code, text = call(["report", "--query", name, "--identified", "-a", archive, "-o", folder / "report.html"])
    written = (folder / "report.html").read_text() if code == 0 else text
    bare = re.sub(r"<script[^>]*>(?!alert)[\s\S]*?</script>", "", written)
    yield "report has the metadata as text", code == 0 and "alert(1)" in written and "<img src=x" not in bare
    yield "report has no foreign script", "<script>alert" not in written


def slow_sockets(served: Served, count: int) -> tuple[int, int]:
    """Open connections that never finish; return how many of 20 requests of the user are served, and how many stay."""
    half = f"GET /api/archive HTTP/1.1\r\nhost: 127.0.0.1:{served.port}\r\nx: ".encode()
    flood: list[socket.socket] = []
    try:
        for _ in range(count):
            flood.append(socket.create_connection(("127.0.0.1", served.port), timeout=30))
            flood[-1].sendall(half)
        fine = sum(served.get("/api/archive").status_code == 200 for _ in range(20))
        still = 0
        for one in flood:
            one.setblocking(False)
            try:
                still += one.recv(1) != b""
            except BlockingIOError:
                still += 1
            except OSError:
                pass
    finally:
        for one in flood:
            one.close()
    return fine, still


def tile_flood(served: Served, count: int) -> tuple[int, float, set[int]]:
    """Ask for tiles of the huge slide from many threads; return how many of 10 other tiles come, how long the longest
    takes, and the statuses of the flood."""
    statuses: list[int] = []
    stop = threading.Event()

    def flood(number: int) -> None:
        for _ in range(count // 20):
            if stop.is_set():
                return
            with contextlib.suppress(httpx.HTTPError):
                place = f"{number % 10}/0/0"
                statuses.append(served.get(f"/api/slides/{served.keys['huge']}/tiles/{place}").status_code)

    threads = [threading.Thread(target=flood, args=(number,), daemon=True) for number in range(20)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    other = next(key for name, key in served.keys.items() if name.startswith("s1"))
    fine, longest = 0, 0.0
    for at in range(10):
        begun = time.monotonic()
        fine += served.get(f"/api/slides/{other}/tiles/10/{at % 4}/{at // 4}").status_code == 200
        longest = max(longest, time.monotonic() - begun)
    stop.set()
    return fine, longest, set(statuses)


def run(effort: Effort) -> Iterator[Figure]:
    """Attack a server, and end it while it draws."""
    served = start(effort)
    try:
        tried = list(refusals(served))
        held = [name for name, refused in tried if not refused]
        yield Figure(
            "host, origin, token, traversal, redirect, header injection, upload, bomb",
            len(tried),
            {"refused": len(tried) - len(held)},
            not held,
            examples=tuple(held),
        )
        tried = list(scripts(served, effort.work / "archive", effort.work))
        held = [name for name, harmless in tried if not harmless]
        yield Figure(
            "scripts in every field, in page, API and report",
            len(tried),
            {"harmless": len(tried) - len(held)},
            not held,
            examples=tuple(held),
        )
        count = effort.trials(1000, 400)
        fine, still = slow_sockets(served, count)
        yield Figure(
            "connections that never finish a request",
            count,
            {"user served, of 20": fine, "connections kept": still},
            fine == 20 and still <= 200,
        )
        fine, longest, statuses = tile_flood(served, effort.trials(1000, 100))
        bounded = statuses <= {200, 404, 409, 503}
        yield Figure(
            "a flood of tiles of a slide that takes minutes",
            effort.trials(1000, 100),
            {"other tiles served, of 10": fine, "longest of them, s": longest, "statuses": str(sorted(statuses))},
            fine == 10 and bounded,
        )
        slow = f"/api/slides/{served.keys['huge']}/tiles/12/1/1"

        def ask() -> None:
            with contextlib.suppress(httpx.HTTPError):
                served.get(slow)

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        time.sleep(0.5)
        begun = time.monotonic()
        served.process.send_signal(signal.SIGTERM)
        _, said = served.process.communicate(timeout=60)
        seconds = time.monotonic() - begun
        left = [path.name for path in effort.work.glob("slideseek-*")]
        yield Figure(
            "SIGTERM while it draws",
            1,
            {"seconds": seconds, "exit": served.process.returncode, "folders left": len(left)},
            seconds < END_SECONDS and served.process.returncode == 0 and "Traceback" not in said and not left,
            examples=(said[-1000:], *left),
        )
    finally:
        served.process.kill()


ROW = Row(
    "viewer_attacks",
    "The viewer under attack",
    "all refused or bounded; a signed-in user is served during a flood; SIGTERM ends it within 5 s",
    run,
)
