"""Check what plugins return, so that no result depends on a promise. Every violation names the plugin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from slideseek.errors import PluginError, SlideseekError, one_line
from slideseek.interfaces import Encoder
from slideseek.types import Bag, Code, CodeSpec, Hit, Mask

FIX_PLUGIN = "fix the plugin, or leave the engine out"
_RUN_KIT = "run 'slideseek plugins check' on it"


def encode_checked(encoder: Encoder, bag: Bag, spec: CodeSpec, owner: str) -> Code:
    """Encode one bag; a crash or a code that breaks the encoder's promise is a `PluginError`.

    A bag that the encoder cannot encode is the `SlideseekError` it raises.
    """
    try:
        return check_code(encoder.encode(bag), bag.slide_id, spec, owner)
    except SlideseekError:
        raise
    except Exception as error:  # a plugin may raise anything; the message must name it
        raise PluginError(f"{owner} crashed while encoding {bag.slide_id!r} ({one_line(error)})", FIX_PLUGIN) from error


def check_code(code: Any, slide_id: str, spec: CodeSpec, owner: str) -> Code:
    """Return a code that keeps the encoder's promise; anything else is a `PluginError`."""
    if not isinstance(code, Code):
        raise PluginError(f"{owner} returned {type(code).__name__} instead of a Code for {slide_id!r}", _RUN_KIT)
    if wrong := code.mismatch(spec):
        raise PluginError(f"{owner} broke its promise for {slide_id!r}: {wrong}", _RUN_KIT)
    if code.slide_id != slide_id:
        raise PluginError(f"{owner} returned a code of {code.slide_id!r} for {slide_id!r}", _RUN_KIT)
    return code


def check_batch(answers: Any, size: int, method: str, owner: str) -> list[Any]:
    """Return the answers of a batch method, one per item; anything else is a `PluginError`."""
    if not isinstance(answers, list):
        raise PluginError(f"{owner}: {method}() returned {type(answers).__name__} instead of a list", _RUN_KIT)
    if len(answers) != size:
        raise PluginError(f"{owner}: {method}() returned {len(answers)} answers for {size} slides", _RUN_KIT)
    return answers


def check_ids(ids: Sequence[str], added: Sequence[str], owner: str) -> None:
    """Raise `PluginError` unless an index holds exactly what was added."""
    if len(ids) != len(added) or set(ids) != set(added):
        raise PluginError(f"{owner} was given {len(added)} slides and lists {len(ids)} others", _RUN_KIT)


def check_hits(hits: Any, rows: Mapping[str, int], among: Mask, k: int, owner: str) -> list[Hit]:
    """Return hits that are a valid answer to a search; anything else is a `PluginError`.

    Checked: at most k hits, each slide once, only slides the mask lets in (so never the query's patient), finite
    distances that never decrease. rows: by slide id, its position in `among`.
    """
    if not isinstance(hits, list) or not all(isinstance(hit, Hit) for hit in hits):
        raise PluginError(f"{owner}: search() did not return a list of hits", _RUN_KIT)
    if len(hits) > k:
        raise PluginError(f"{owner} returned {len(hits)} hits for k = {k}", _RUN_KIT)
    seen: set[str] = set()
    last = -math.inf
    for rank, hit in enumerate(hits, 1):
        if hit.slide_id in seen:
            raise PluginError(f"{owner} found {hit.slide_id!r} twice", _RUN_KIT)
        if hit.slide_id not in rows or not among[rows[hit.slide_id]]:
            what = "a slide the mask leaves out" if hit.slide_id in rows else "a slide it does not hold"
            raise PluginError(f"{owner} found {hit.slide_id!r} at rank {rank}: {what}", _RUN_KIT)
        if not math.isfinite(hit.distance):
            raise PluginError(f"{owner}: the distance at rank {rank} is {hit.distance}", _RUN_KIT)
        if hit.distance < last:
            raise PluginError(
                f"{owner}: the distance at rank {rank} is {hit.distance:g}, below {last:g} at the rank before", _RUN_KIT
            )
        seen.add(hit.slide_id)
        last = hit.distance
    return hits


def same_code(one: Code, other: Code) -> bool:
    """Say whether two codes are equal to the last bit."""
    return one.space == other.space and one.rows.tobytes() == other.rows.tobytes()
