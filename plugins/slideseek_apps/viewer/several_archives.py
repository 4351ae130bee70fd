"""Several archives behind one address: each below `/a/NAME/`, and a page that lists them."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote, unquote

from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX = "/a/"

_PAGE = (
    "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    "<title>slideseek: archives</title><h1>Archives</h1><ul>{}</ul></html>"
)


def names_of(roots: Iterable[Path]) -> dict[str, Path]:
    """Return the archives by the name of their folder; a name that occurs twice gets a number."""
    named: dict[str, Path] = {}
    for root in roots:
        name, count = root.name, 1
        while name in named:
            count += 1
            name = f"{root.name} {count}"
        named[name] = root
    return named


class SeveralArchives:
    """Pass a request on to the application of its archive, as if that were alone."""

    def __init__(self, apps: Mapping[str, ASGIApp]) -> None:
        self._apps = apps
        links = (f'<li><a href="{PREFIX[1:]}{quote(name)}/">{html.escape(name)}</a></li>' for name in apps)
        self._page = HTMLResponse(_PAGE.format("".join(links)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path: str = scope["path"]
        if path == "/":
            await self._page(scope, receive, send)
            return
        name, slash, rest = path.removeprefix(PREFIX).partition("/")
        app = self._apps.get(unquote(name)) if path.startswith(PREFIX) else None
        if app is None:
            await PlainTextResponse("no such archive", 404)(scope, receive, send)
        elif not slash:  # addresses on the page are relative to its folder
            await RedirectResponse(f"{PREFIX}{quote(name)}/", 308)(scope, receive, send)
        else:
            inner = {**scope, "path": f"/{rest}", "raw_path": f"/{quote(rest)}".encode()}
            await app(inner, receive, send)
