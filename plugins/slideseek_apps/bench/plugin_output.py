"""Check what plugins return; the runner believes none of it. Every violation names the plugin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from slideseek.errors import PluginError, SlideseekError, one_line
from slideseek.interfaces import Encoder
from slideseek.types import Bag, Code, CodeSpec, Hit, Mask

_KIT = "run 'slideseek plugins check' on it"


def coded(encoder: Encoder, bag: Bag, spec: CodeSpec, owner: str) -> Code:
    """Encode one bag; a crash or a code that breaks the encoder's promise is a `PluginError`.

    A bag that the encoder cannot code is the `SlideseekError` it raises.
    """
    try:
        return check_code(encoder.encode(bag), bag.slide_id, spec, owner)
    except SlideseekError:
        raise
    except Exception as error:  # whatever a plugin raises is told as the plugin's
        raise PluginError(
            f"{owner} crashed while it encoded {bag.slide_id!r} ({one_line(error)})", "mend the plugin"
        ) from error


def check_code(code: Any, slide_id: str, spec: CodeSpec, owner: str) -> Code:
    """Return a code that keeps the encoder's promise; anything else is a `PluginError`."""
    if not isinstance(code, Code):
        raise PluginError(f"{owner} returned {type(code).__name__} instead of a Code for {slide_id!r}", _KIT)
    if wrong := code.mismatch(spec):
        raise PluginError(f"{owner} broke its promise for {slide_id!r}: {wrong}", _KIT)
    if code.slide_id != slide_id:
        raise PluginError(f"{owner} returned a code of {code.slide_id!r} for {slide_id!r}", _KIT)
    return code


def check_ids(ids: Sequence[str], added: Sequence[str], owner: str) -> None:
    """Raise `PluginError` unless an index holds exactly what was added."""
    if len(ids) != len(added) or set(ids) != set(added):
        raise PluginError(f"{owner} was given {len(added)} slides and lists {len(ids)} others", _KIT)


def check_hits(hits: Any, rows: Mapping[str, int], among: Mask, k: int, owner: str) -> list[Hit]:
    """Return hits that are what a search may answer; anything else is a `PluginError`.

    Checked: at most k hits, each slide once, only slides the mask lets in (so never the query's patient), finite
    distances that never go down. rows: by slide id, the entry of `among` that is about it.
    """
    if not isinstance(hits, list) or not all(isinstance(hit, Hit) for hit in hits):
        raise PluginError(f"{owner}: search() did not return a list of hits", _KIT)
    if len(hits) > k:
        raise PluginError(f"{owner} returned {len(hits)} hits where {k} were asked for", _KIT)
    seen: set[str] = set()
    last = -math.inf
    for rank, hit in enumerate(hits, 1):
        if hit.slide_id in seen:
            raise PluginError(f"{owner} found {hit.slide_id!r} twice", _KIT)
        if hit.slide_id not in rows or not among[rows[hit.slide_id]]:
            what = "a slide the mask leaves out" if hit.slide_id in rows else "a slide it does not hold"
            raise PluginError(f"{owner} found {hit.slide_id!r} at rank {rank}: {what}", _KIT)
        if not math.isfinite(hit.distance):
            raise PluginError(f"{owner}: the distance at rank {rank} is {hit.distance}", _KIT)
        if hit.distance < last:
            raise PluginError(
                f"{owner}: the distance at rank {rank} is {hit.distance:g}, below {last:g} before it", _KIT
            )
        seen.add(hit.slide_id)
        last = hit.distance
    return hits
