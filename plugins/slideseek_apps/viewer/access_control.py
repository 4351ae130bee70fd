"""Access control: only this machine, this page and this token. A wrapper around the whole application.

Any web page can make a browser send requests to a server on the same machine. So the name in `Host` must be ours (a
foreign name that resolves to this machine is rejected), a foreign `Origin` is rejected, and without the token only a
static notice is served. The printed address contains the token once; after that a cookie does.

Behind a reverse proxy that signs people in, the proxy proves itself with a secret and names the user in a header. Both
come from the proxy alone: it has to overwrite what a browser sends under these names.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_PARAMETER = "token"

OPENSEADRAGON_STYLE = "sha256-9xTiqzfwFaL2SGb1rmr8gysEwVVjIvqWAgmZgqFqpEE="
"""The one style rule that OpenSeadragon adds to a page (no outline on touch screens), allowed by its digest."""

HEADERS = {
    "content-security-policy": (
        f"default-src 'none'; script-src 'self'; style-src 'self' '{OPENSEADRAGON_STYLE}'; "
        "img-src 'self' blob: data:; connect-src 'self';"
        " worker-src blob:; font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}

NOTICE = (
    "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    "<title>slideseek</title><h1>slideseek</h1><p>Open the address that <code>slideseek serve</code> printed when it"
    " started. It contains the key to this server. After that, this link works too.</p></html>"
)


SECRET_HEADER = "x-slideseek-proxy-secret"
MAX_USER = 256
"""Longest name of a user that is taken from a proxy."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A reverse proxy that signs people in. origin: its address in browsers. user_header: names the user."""

    origin: str
    user_header: str
    secret: str

    @property
    def host(self) -> str:
        """The host that browsers send, with its port if it has one."""
        return self.origin.partition("://")[2]

    def user(self, headers: Headers) -> str:
        """Return the user whom the proxy has signed in; "" if the request did not come through it."""
        user = headers.get(self.user_header, "").strip()
        known = _same(headers.get(SECRET_HEADER, ""), self.secret)
        return user if known and user.isprintable() and len(user) <= MAX_USER else ""


class Guard:
    """Accept only requests from this page on this machine, and add security headers to every response."""

    def __init__(
        self,
        app: ASGIApp,
        token: str,
        port: int,
        names: Iterable[str],
        upload_bytes: int,
        proxy: Proxy | None = None,
    ) -> None:
        self._app = app
        self._token = token
        self._proxy = proxy
        here = frozenset(f"{name}:{port}" for name in names)
        self._hosts = here | ({proxy.host} if proxy else set())
        self._origins = frozenset(f"http://{host}" for host in here) | ({proxy.origin} if proxy else set())
        self._cookie = f"slideseek-{port}"  # cookies ignore ports: two servers must not share one
        self._upload_bytes = upload_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        answer = _Answer(send)
        headers = Headers(scope=scope)
        if headers.get("host", "").lower() not in self._hosts:
            await answer.refuse(421, "the host name is not accepted", "open the address the server printed")
        elif ((origin := headers.get("origin")) is not None and origin.lower() not in self._origins) or (
            _is_api(scope) and headers.get("sec-fetch-site") in ("cross-site", "same-site")
        ):
            await answer.refuse(403, "requests from other sites are rejected", "open the address the server printed")
        elif (where := self._entrance(scope)) is not None:
            await answer.redirect(where, f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict")
        elif user := self._proxy.user(headers) if self._proxy else "":
            scope.setdefault("state", {})["user"] = user
            await self._pass(scope, headers, receive, answer)
        elif not self._knows(headers):
            if _is_api(scope):
                await answer.refuse(401, "the token is missing or wrong", "open the address the server printed")
            else:
                await answer.page(401, NOTICE)
        else:
            await self._pass(scope, headers, receive, answer)

    def _entrance(self, scope: Scope) -> str | None:
        """Return the address without the token if it contains the right token, else None."""
        if scope["path"] != "/":
            return None
        parameters = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in parameters if name == TOKEN_PARAMETER]
        if not given or not _same(given[0], self._token):
            return None
        rest = urlencode([pair for pair in parameters if pair[0] != TOKEN_PARAMETER])
        return f"/?{rest}" if rest else "/"

    def _knows(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return _same(given.strip(), self._token)
        try:
            cookies: SimpleCookie = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        return self._cookie in cookies and _same(cookies[self._cookie].value, self._token)

    async def _pass(self, scope: Scope, headers: Headers, receive: Receive, answer: _Answer) -> None:
        stated = headers.get("content-length", "0")
        too_large = f"the request is larger than {self._upload_bytes:,} bytes"
        if stated.isdecimal() and int(stated) > self._upload_bytes:
            await answer.refuse(413, too_large, "send a smaller image")
            return
        got = 0

        async def counted() -> Message:
            nonlocal got
            message = await receive()
            got += len(message.get("body", b""))
            if got > self._upload_bytes:  # the length was missing or wrong
                raise HTTPException(413, too_large, {"connection": "close"})
            return message

        await self._app(scope, counted, answer.send)


class _Answer:
    """Send responses with the security headers."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await self._send(message)

    async def refuse(self, status: int, error: str, fix: str) -> None:
        body = json.dumps({"error": error, "fix": fix}).encode()
        await self._whole(status, body, [(b"content-type", b"application/json")])

    async def page(self, status: int, html: str) -> None:
        await self._whole(status, html.encode(), [(b"content-type", b"text/html; charset=utf-8")])

    async def redirect(self, where: str, cookie: str) -> None:
        headers = [(b"location", where.encode("latin-1")), (b"set-cookie", cookie.encode("latin-1"))]
        await self._whole(303, b"", headers)

    async def _whole(self, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        headers = [*headers, (b"content-length", str(len(body)).encode())]
        # The rest of a rejected body is not read, so the connection cannot be reused.
        headers += [(b"connection", b"close")] if status == 413 else []
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})


def _is_api(scope: Scope) -> bool:
    return "/api/" in scope["path"]


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), token.encode())
