"""What the routes work with, and how they reach it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from fastapi import Depends, Request

from slideseek_apps.viewer.schemas import SlideOut
from slideseek_apps.viewer.search_service import SearchService, no_slide
from slideseek_apps.viewer.slide_directory import Entry
from slideseek_apps.viewer.tiles import Pictures
from slideseek_apps.viewer.uploads import Uploads
from slideseek_apps.viewer.worker_pools import WorkerPool


class NotThereError(Exception):
    """What an address names does not exist. Carries the message for a person."""

    def __init__(self, cause: str, fix: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Services:
    """One of each for a server. pixels: renders pictures. asking: reads the catalogue and indexes, in milliseconds.

    thinking: makes queries from pixels and explains hits, in seconds: it has a lane of its own, so that browsing and
    searching by slide do not wait for it.
    """

    searching: SearchService
    pictures: Pictures
    uploads: Uploads
    pixels: WorkerPool
    quick: WorkerPool
    slow: WorkerPool

    async def entry(self, key: str) -> Entry:
        """Return the slide of a key, or raise `NotThereError`. Only an unknown key makes the catalogue be looked at."""
        found = self.searching.loaded.get(key)
        return found if found is not None else await self.quick.run(self.fresh_entry, key)

    def fresh_entry(self, key: str) -> Entry:
        """Return the slide of a key as the catalogue knows it now, or raise `NotThereError`; may block."""
        found = self.searching.directory.get(key)
        if found is None:
            error = no_slide(key)
            raise NotThereError(error.cause, error.fix)
        return found

    def close(self) -> None:
        """End the threads, then close the files they used."""
        for lane in (self.pixels, self.quick, self.slow):
            lane.close()
        self.pictures.close()
        self.searching.close()


def services_of(request: Request) -> Services:
    """Return the services of the application a request came to."""
    found: Services = request.app.state.services
    return found


ServicesOf: TypeAlias = Annotated[Services, Depends(services_of)]


def slide_out(entry: Entry) -> SlideOut:
    """Return a slide for the API: the catalogue's fields, no path."""
    return SlideOut(key=entry.key, version=entry.version, **entry.record.facts())
