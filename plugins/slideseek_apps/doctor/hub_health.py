"""Check whether an engine finds a few slides all the time: hubs, and a preference for slides with many patches."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import numpy as np

from slideseek.archive.archive import Archive
from slideseek.engine import Engine
from slideseek.searching.searcher import Searcher
from slideseek_apps.bench.hubness import hubness
from slideseek_apps.doctor.finding import Finding, counted

LEAST_SLIDES = 20
"""Slides below which the numbers are chance."""
QUERIES, SECONDS = 200, 5.0
"""Slides to search with at most, drawn at random, and the time after which no further one is."""
HITS = 10
"""Hits per query: with fewer, chance alone finds some slides several times as often as others."""
LARGEST, SIZE = 3.0, 0.3
"""Times its fair share, and correlation with the number of patches, above which there is a warning."""
OFTEN = 10
"""Times a slide must be found before it counts as a hub, since a multiple of a small share is chance."""


def look_for_hubs(archive: Archive, engine: Engine, area: str) -> Iterator[Finding]:
    """Yield how evenly searches with some slides find the others; nothing for a small archive."""
    searcher = Searcher(archive, engine)
    ids = np.array(searcher.index.ids, dtype=object)
    if len(ids) < LEAST_SLIDES:
        return
    found: Counter[str] = Counter()
    fair, asked, started = np.zeros(len(ids)), 0, time.monotonic()
    for place in np.random.default_rng(0).permutation(len(ids))[:QUERIES].tolist():
        if time.monotonic() - started > SECONDS:
            break
        query = searcher.queries.stored(str(ids[place]))
        answer = searcher.search(query, HITS, rerank=False)
        candidates = searcher.candidates(query)
        if answer.found:
            found.update(one.record.id for one in answer.found)
            fair[candidates] += len(answer.found) / np.count_nonzero(candidates)
            asked += 1
    measured = hubness(found, dict(zip(ids.tolist(), fair.tolist())), _patches(archive, searcher, engine))
    if measured is None:
        return
    most, times = measured.hub, found[measured.hub]
    detail = (
        f"{most} is in {times} of {asked} lists of {HITS}, {measured.largest:.1f} times its fair share;"
        f" skew {measured.skew:.2f}"
    )
    if asked >= len(ids):
        detail += f", {counted(measured.never, 'slide')} never found"
    if measured.size is not None:
        detail += f", correlation with the number of patches {measured.size:+.2f}"
    if (measured.largest > LARGEST and times >= OFTEN) or abs(measured.size or 0.0) > SIZE:
        fix = "with index hamming set direction = 'symmetric' and centring = 0.9; bound the patches per slide ('most')"
        yield Finding(area, "hubs", "warn", detail, fix)
    else:
        yield Finding(area, "hubs", "ok", detail)


def _patches(archive: Archive, searcher: Searcher, engine: Engine) -> dict[str, int]:
    """Return by slide id how many patches have features; a slide without is missing."""
    stored = ((slide.id, archive.catalog.payload(key)) for slide, key in searcher.stages.ready(engine))
    return {name: int(payload.meta["n"]) for name, payload in stored if payload is not None}
