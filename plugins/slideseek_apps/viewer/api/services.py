"""The services that routes use, and how to get them from a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from fastapi import Depends, Request

from slideseek.types import SlideRecord
from slideseek_apps.viewer.schemas import SlideOut
from slideseek_apps.viewer.search_service import SearchService, no_slide
from slideseek_apps.viewer.slide_directory import Entry
from slideseek_apps.viewer.tiles import Pictures
from slideseek_apps.viewer.uploads import Uploads
from slideseek_apps.viewer.worker_pools import WorkerPool


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
    pixels: WorkerPool
    quick: WorkerPool
    slow: WorkerPool

    async def entry(self, key: str) -> Entry:
        """Return the slide of a key, or raise `NotThereError`. Only an unknown key needs the catalogue."""
        found = self.searching.loaded.get(key)
        return found if found is not None else await self.quick.run(self.fresh_entry, key)

    def fresh_entry(self, key: str) -> Entry:
        """Return the slide of a key from the current catalogue, or raise `NotThereError`. May block."""
        found = self.searching.directory.get(key)
        if found is None:
            error = no_slide(key)
            raise NotThereError(error.cause, error.fix)
        return found

    def close(self) -> None:
        """Stop the threads, then close the files they used."""
        for pool in (self.pixels, self.quick, self.slow):
            pool.close()
        self.pictures.close()
        self.searching.close()


def services_of(request: Request) -> Services:
    """Return the services of the application a request came to."""
    found: Services = request.app.state.services
    return found


ServicesOf: TypeAlias = Annotated[Services, Depends(services_of)]


def slide_out(record: SlideRecord, entry: Entry | None) -> SlideOut:
    """Return a slide for the API, without its path. entry: None for a query that is not a slide of the archive."""
    return SlideOut(key=entry.key if entry else "", version=entry.version if entry else "", **record.facts())
