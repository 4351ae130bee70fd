"""The web application: routes, static files, and errors as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from slideseek import __version__
from slideseek.errors import ParameterError, SlideseekError, UsageError
from slideseek_apps.viewer.api import notebook_routes, saving_routes, search_routes, slide_routes
from slideseek_apps.viewer.api.services import NotThereError, Services
from slideseek_apps.viewer.assets import Asset, load_assets
from slideseek_apps.viewer.hide_paths import without_paths
from slideseek_apps.viewer.schemas import Problem
from slideseek_apps.viewer.worker_pools import BusyError

OPENAPI = "/api/openapi.json"

HOW_TO_GIVE = {
    "k": "request one hit or more",
    "site": "choose the site of the image",
    "center": "search without leaving out the centre",
    "options": "give options as NAME=VALUE",
}
"""How a user sets the parameters of a search on the page, for errors about them."""

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The request is invalid."},
    401: {"model": Problem, "description": "The token is missing or wrong."},
    403: {"model": Problem, "description": "The request came from another site."},
    404: {"model": Problem, "description": "There is no such slide, tile or patch."},
    409: {"model": Problem, "description": "The archive is not ready for this, or the slide cannot be read."},
    413: {"model": Problem, "description": "The body is too large."},
    422: {"model": Problem, "description": "A value has the wrong format."},
    503: {"model": Problem, "description": "The server is busy: try again in a second."},
}


def make_app(services: Services) -> FastAPI:
    """Return the application over `services`; wrap it in a `Guard`."""
    app = FastAPI(
        title="slideseek",
        version=__version__,
        summary="Browse an archive of whole-slide images and search it by image content.",
        openapi_url=OPENAPI,
        docs_url=None,  # the default pages load scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.services = services
    for router in (slide_routes.router, search_routes.router, saving_routes.router, notebook_routes.router):
        app.include_router(router, prefix="/api", responses=ERRORS)
    _serve_page(app)
    _report_errors(app)
    _describe_token(app)
    return app


def _serve_page(app: FastAPI) -> None:
    assets = load_assets()

    def send(asset: Asset, request: Request) -> Response:
        headers = {"etag": asset.etag, "cache-control": "no-cache", "vary": "accept-encoding"}
        if asset.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(asset.packed, media_type=asset.kind, headers={**headers, "content-encoding": "gzip"})
        return Response(asset.data, media_type=asset.kind, headers=headers)

    async def page(request: Request) -> Response:
        return send(assets["index.html"], request)

    async def asset(request: Request, path: str) -> Response:
        found = assets.get(path)
        if found is None:
            raise NotThereError("no such file", "go to the start page")
        return send(found, request)

    app.add_api_route("/", page, include_in_schema=False)
    app.add_api_route("/static/{path:path}", asset, include_in_schema=False)


def _describe_token(app: FastAPI) -> None:
    """Document in OpenAPI that every route needs the token, which the guard checks."""
    made = app.openapi()
    made.setdefault("components", {})["securitySchemes"] = {
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "The token in the printed address.",
        }
    }
    made["security"] = [{"token": []}]


def _report_errors(app: FastAPI) -> None:
    @app.exception_handler(SlideseekError)
    async def refused(request: Request, error: SlideseekError) -> Response:
        if isinstance(error, ParameterError):
            error = error.in_words_of(HOW_TO_GIVE)
        services: Services = request.app.state.services
        root = str(services.searching.archive.root)
        cause, fix = (without_paths(text, root) for text in (error.cause, error.fix))
        return _problem(400 if isinstance(error, UsageError) else 409, cause, fix)

    @app.exception_handler(NotThereError)
    async def not_there(_: Request, error: NotThereError) -> Response:
        return _problem(404, error.cause, error.fix)

    @app.exception_handler(BusyError)
    async def busy(_: Request, __: BusyError) -> Response:
        return _problem(503, "the server is busy", "try again in a moment", {"retry-after": "1"})

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first.get("loc", ())[1:])
        return _problem(422, f"{where}: {first.get('msg', 'invalid')}"[:300], f"see {OPENAPI}")

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> Response:
        return _problem(error.status_code, str(error.detail), "", error.headers)

    @app.exception_handler(Exception)
    async def bug(_: Request, __: Exception) -> Response:
        # The traceback goes to the server's terminal, not over the network.
        return _problem(500, f"this is a bug in slideseek {__version__}", "report it with the output in the terminal")


def _problem(status: int, error: str, fix: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": error, "fix": fix}, status, headers)
