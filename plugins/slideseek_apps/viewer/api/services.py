"""The services that routes use, and how to get them from a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from fastapi import Depends, Request

from slideseek.types import SlideRecord
from slideseek_apps.viewer.notebook import Notebook
from slideseek_apps.viewer.schemas import SlideOut
from slideseek_apps.viewer.search_service import SearchService, no_slide
from slideseek_apps.viewer.slide_directory import Entry
from slideseek_apps.viewer.tiles import Pictures
from slideseek_apps.viewer.uploads import Uploads
from slideseek_apps.viewer.worker_pools import WorkerPool

STOP_SECONDS = 1.0
"""How long to wait for each pool of threads when the server stops."""


class NotThereError(Exception):
    """The requested resource does not exist. Carries a message for the user."""

    def __init__(self, cause: str, fix: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Services:
    """The services of one server, with three thread pools.

    pixels: renders pictures. quick: reads the catalogue and indexes, in milliseconds. slow: makes queries from pixels
    and explains hits, in seconds; it has its own pool, so browsing and search by slide do not wait for it.
    """

    searching: SearchService
    pictures: Pictures
    uploads: Uploads
    notebook: Notebook
    pixels: WorkerPool
    quick: WorkerPool
    slow: WorkerPool

    async def entry(self, key: str) -> Entry:
        """Return the slide of a key, or raise `NotThereError`. Only an unknown key needs the catalogue."""
        found = self.searching.loaded.get(key)
        return found if found is not None else await self.quick.run(self.fresh_entry, key)

    def fresh_entry(self, key: str) -> Entry:
        """Return the slide or the allowed file of a key as it is now, or raise `NotThereError`. May block."""
        found = self.searching.directory.get(key) or self.searching.files.get(key)
        if found is None:
            error = no_slide(key)
            raise NotThereError(error.cause, error.fix)
        return found

    def close(self) -> None:
        """Stop the threads, then close the files they used; what a thread goes on using stays open."""
        self.pictures.interrupt()
        ended = [pool.close(STOP_SECONDS) for pool in (self.pixels, self.quick, self.slow)]
        if all(ended):
            self.pictures.close()
            self.searching.close()


def services_of(request: Request) -> Services:
    """Return the services of the application a request came to."""
    found: Services = request.app.state.services
    return found


ServicesOf: TypeAlias = Annotated[Services, Depends(services_of)]


def slide_out(record: SlideRecord, entry: Entry | None, name: str = "") -> SlideOut:
    """Return a slide for the API, without its path. entry: None for a query that is not a slide of the archive.

    name: shown instead of the id, for a file, whose id is its path.
    """
    facts = record.facts() | ({"id": name} if name else {})
    pixels = entry.has_pixels if entry else False
    return SlideOut(key=entry.key if entry else "", version=entry.version if entry else "", pixels=pixels, **facts)


def entry_out(services: Services, entry: Entry) -> SlideOut:
    """Return a slide or an allowed file for the API."""
    name = services.searching.files.name(entry.record.id) if entry.file else ""
    return slide_out(entry.record, entry, name)


def user_of(request: Request) -> str:
    """Return the user behind a proxy who sent a request, "" without a proxy."""
    return str(getattr(request.state, "user", ""))
