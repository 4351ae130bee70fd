"""The boundary between slideseek and plugins: every call is owned, and what comes back is checked.

An error that a plugin raises, or a result that breaks its protocol, is a `PluginError` that names the component, its
distribution and version, and the call. Only errors with a cause and a fix (`SlideseekError`) pass unchanged: a
component raises them about a slide or an option. With SLIDESEEK_DEBUG set, the author's traceback is shown.
"""

from __future__ import annotations

import inspect
import math
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from slideseek.errors import DISK_FAILURES, PluginError, SlideseekError, one_line, raised_at
from slideseek.interfaces import CAPABILITIES, KIND_PROTOCOLS, BatchIndex, FiltersRows, Index, KeptElsewhere, implements
from slideseek.plugins import Registry
from slideseek.types import Bag, Code, CodeSpec, Filter, Float32, Float64, Hit, Mask, Patches, SlideRecord, UInt8

DEBUG_VARIABLE = "SLIDESEEK_DEBUG"
FIX_PLUGIN = "update the plugin or use another component; 'slideseek plugins check' or SLIDESEEK_DEBUG=1 shows more"

Given = ParamSpec("Given")
Returned = TypeVar("Returned")


@dataclass(frozen=True, slots=True)
class Owner:
    """Who answers for a component: its kind and name, and the distribution and version it comes from."""

    kind: str
    use: str
    distribution: str

    def __str__(self) -> str:
        return f"{self.kind} {self.use!r} of {self.distribution}"

    @classmethod
    def of(cls, registry: Registry, kind: Any, use: str) -> Owner:
        """Return the owner of a registered component."""
        return cls(kind, use, registry.find(kind, use).owner)

    def call(
        self, what: str, function: Callable[Given, Returned], *args: Given.args, **kwargs: Given.kwargs
    ) -> Returned:
        """Call a method of the component. what: the call in messages, such as `encode('S-001')`."""
        try:
            return function(*args, **kwargs)
        except (SlideseekError, MemoryError):
            raise
        except (Exception, SystemExit) as error:  # a plugin may raise anything; the message must name it
            if isinstance(error, OSError) and error.errno in DISK_FAILURES:  # the disk is to blame; who wrote is named
                raise OSError(error.errno, f"{self} in {what}: {error.strerror}", error.filename) from error
            if os.environ.get(DEBUG_VARIABLE):  # here, since not every front end ends with the error
                traceback.print_exc()
            raise self.wrong(f"failed in {what} ({one_line(error)}){raised_at(error)}") from error

    def read(self, component: Any, name: str) -> Any:
        """Return a property of the component: it is a call too."""
        return self.call(name, getattr, component, name)

    def read_count(self, component: Any, name: str, least: int = 1) -> int:
        """Return a property that is a whole number of at least `least`."""
        value = self.read(component, name)
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise self.wrong(f"has {name} {value!r}, not a whole number of at least {least}")
        return int(value)

    def refuses(self, index: Any, spec: CodeSpec) -> str:
        """Return why an index does not accept codes, "" if it does."""
        reason = self.call("refuses()", index.refuses, spec)
        if not isinstance(reason, str):
            raise self.wrong(f"returned {reason!r} from refuses(), not text")
        return reason

    def wrong(self, what: str) -> PluginError:
        """Return the error for a component that breaks its protocol."""
        return PluginError(f"{self} {what}", FIX_PLUGIN)

    def check_signatures(self, component: Any) -> None:
        """Raise `PluginError` for a method that cannot be called as its protocol is."""
        for protocol in (KIND_PROTOCOLS[self.kind], *CAPABILITIES[self.kind]):
            if protocol is not KIND_PROTOCOLS[self.kind] and protocol not in type(component).__mro__:
                continue
            for name, promised in vars(protocol).items():
                if name.startswith("_") or not inspect.isfunction(promised):
                    continue
                wanted = list(inspect.signature(promised).parameters.values())[1:]
                method = getattr(component, name)
                try:
                    inspect.signature(method).bind(*(parameter.name for parameter in wanted))
                except TypeError as error:
                    shape = ", ".join(parameter.name for parameter in wanted)
                    raise self.wrong(f"cannot be called as {name}({shape}): {error}") from error
                except ValueError:  # a compiled method: its signature is unknown
                    continue

    def check_spec(self, spec: Any) -> CodeSpec:
        """Return the spec of an encoder if it is one."""
        known = isinstance(spec, CodeSpec) and spec.kind in ("float", "bits", "sparse")
        if not known or type(spec.width) is not int or spec.width < 1:
            raise self.wrong(f"returned {spec!r} from spec(), not a CodeSpec with a positive width")
        return spec  # type: ignore[no-any-return]

    def check_patches(self, patches: Any, slide_id: str) -> Patches:
        """Return selected patches that belong to the slide and can be read."""
        if not isinstance(patches, Patches):
            raise self.wrong(f"returned {type(patches).__name__} instead of Patches for slide {slide_id!r}")
        if patches.slide_id != slide_id:
            raise self.wrong(f"returned patches of {patches.slide_id!r} for slide {slide_id!r}")
        if not bool(np.isfinite(patches.mpp).all() and (patches.mpp > 0).all()):
            raise self.wrong(f"returned patches of slide {slide_id!r} with an invalid mpp")
        return patches

    def check_tissue(self, mask: Any, thumbnail: UInt8) -> Mask:
        """Return a mask of tissue if it is bool with the height and width of the thumbnail."""
        shape = thumbnail.shape[:2]
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != shape:
            got = f"{mask.dtype} {mask.shape}" if isinstance(mask, np.ndarray) else type(mask).__name__
            raise self.wrong(f"returned {got} from find_tissue(), not bool {shape}")
        return mask

    def check_focus(self, found: Any, kind: type, patches: int) -> Any:
        """Return what a selector says about the focus of patches: `kind` (patches,), none of it nan."""
        if getattr(found, "dtype", None) != kind or found.shape != (patches,) or np.isnan(found).any():
            raise self.wrong(f"did not return one {kind.__name__} for each of {patches} patches")
        return found

    def check_features(self, features: Any, rows: int, width: int) -> Float32:
        """Return features that are float32 (rows, width) and finite."""
        if not isinstance(features, np.ndarray) or features.dtype != np.float32 or features.shape != (rows, width):
            got = f"{features.dtype} {features.shape}" if isinstance(features, np.ndarray) else type(features).__name__
            raise self.wrong(f"returned {got}, not float32 ({rows}, {width})")
        if not np.isfinite(features).all():
            raise self.wrong("returned features that are not finite")
        return features

    def check_code(self, code: Any, bag: Bag, spec: CodeSpec) -> Code:
        """Return the code of a bag that has the promised format and finite values."""
        if not isinstance(code, Code):
            raise self.wrong(f"returned {type(code).__name__} instead of a Code for {bag.slide_id!r}")
        if wrong := code.mismatch(spec):
            raise self.wrong(f"returned a wrong code for {bag.slide_id!r}: {wrong}")
        if code.slide_id != bag.slide_id:
            raise self.wrong(f"returned a code of {code.slide_id!r} for {bag.slide_id!r}")
        if code.rows.dtype == np.float32 and not np.isfinite(code.rows).all():
            raise self.wrong(f"returned a code for {bag.slide_id!r} that is not finite")
        if (
            spec.kind == "bits"
            and spec.width % 8
            and np.any(code.rows[:, -1].astype(np.uint8) & (0xFF >> spec.width % 8))
        ):
            raise self.wrong(f"returned a code for {bag.slide_id!r} whose padding bits are not zero")
        return code

    def check_batch(self, answers: Any, size: int, method: str) -> list[Any]:
        """Return the answers of a batch method, one per item."""
        if not isinstance(answers, list):
            raise self.wrong(f"returned {type(answers).__name__} instead of a list from {method}()")
        if len(answers) != size:
            raise self.wrong(f"returned {len(answers)} answers from {method}() for {size} slides")
        return answers

    def check_ids(self, ids: Sequence[str], added: Sequence[str]) -> None:
        """Raise `PluginError` unless an index holds exactly what was added."""
        if len(ids) != len(added) or set(ids) != set(added):
            raise self.wrong(f"was given {len(added)} slides and lists {len(ids)}, or others")

    def check_hits(self, hits: Any, k: int, row_of: Mapping[str, int], among: Mask | None) -> list[Hit]:
        """Return hits that are a valid answer to a search.

        Checked: at most k hits, each slide once, only slides the mask lets in (so never the query's patient), finite
        distances that never decrease. row_of: by slide id, its place in `among`.
        """
        if not isinstance(hits, list):
            raise self.wrong("did not return a list of hits from search()")
        if len(hits) > k:
            raise self.wrong(f"returned {len(hits)} hits for k = {k}")
        last = -math.inf
        seen: set[int] = set()
        distance: Any  # as the plugin made it
        for hit in hits:  # one plain loop: after a search the caches are cold, and every step costs
            if not isinstance(hit, Hit):
                raise self.wrong("did not return a list of hits from search()")
            slide_id, distance = hit.slide_id, hit.distance
            row = row_of.get(slide_id)
            if row is None:
                raise self.wrong(f"found {slide_id!r} at rank {len(seen) + 1}: a slide it does not hold")
            if among is not None and not among[row]:
                raise self.wrong(f"found {slide_id!r} at rank {len(seen) + 1}: a slide that this search excludes")
            if row in seen:
                raise self.wrong(f"found {slide_id!r} twice")
            if not isinstance(distance, (float, int)) or not math.isfinite(distance):
                raise self.wrong(f"returned the distance {distance!r} at rank {len(seen) + 1}, not a finite float")
            if distance < last:
                at = len(seen)
                raise self.wrong(f"returned the distance {distance:g} at rank {at + 1}, after {last:g} at rank {at}")
            last = distance
            seen.add(row)
        return hits

    def check_distances(self, distances: Any, size: int) -> Float64:
        """Return the distances of a reranker: float64 (size,), finite."""
        if not isinstance(distances, np.ndarray) or distances.shape != (size,) or distances.dtype.kind != "f":
            raise self.wrong(f"did not return {size} distances")
        if not np.isfinite(distances).all():
            raise self.wrong("returned distances that are not finite")
        return distances.astype(np.float64, copy=False)

    def check_contributions(self, parts: Any, patches: int) -> Float64:
        """Return the parts of a similarity: float64 (patches,), finite."""
        if not isinstance(parts, np.ndarray) or parts.shape != (patches,) or parts.dtype.kind != "f":
            raise self.wrong(f"did not return one contribution for each of {patches} patches")
        if not np.isfinite(parts).all():
            raise self.wrong("returned contributions that are not finite")
        return parts.astype(np.float64, copy=False)


class CheckedIndex:
    """An index whose every call is owned and checked; it is used like the index itself.

    inner: the index, to be asked for its capabilities.
    """

    def __init__(self, inner: Index, owner: Owner) -> None:
        self.inner, self.owner = inner, owner
        self._row_of: dict[str, int] | None = None

    @property
    def ids(self) -> Sequence[str]:
        """Slide ids in the index; masks follow this order."""
        found: Sequence[str] = self.owner.read(self.inner, "ids")
        return found

    @property
    def nbytes(self) -> int:
        """Bytes used by the stored codes."""
        return self.owner.read_count(self.inner, "nbytes", least=0)

    def with_inner(self, inner: Index) -> CheckedIndex:
        """Return the same slides behind another index, such as one with other options."""
        made = CheckedIndex(inner, self.owner)
        made._row_of = self._row_of
        return made

    def add(self, codes: Sequence[Code]) -> None:
        """Add codes; afterwards the index must hold them."""
        self._row_of = None
        before = len(self.ids)
        self.owner.call("add()", self.inner.add, codes)
        if (after := len(self.ids)) != before + len(codes):
            raise self.owner.wrong(f"was given {len(codes)} slides and lists {after - before} more")

    def remove(self, slide_ids: Sequence[str]) -> None:
        """Remove slides; afterwards the index must not hold them."""
        self._row_of = None
        before = len(self.ids)
        self.owner.call("remove()", self.inner.remove, slide_ids)
        if len(self.ids) != before - len(slide_ids):
            raise self.owner.wrong(f"was asked to remove {len(slide_ids)} slides and still lists some of them")

    def search(self, code: Code, k: int, among: Mask | None = None) -> list[Hit]:
        """Return at most k hits, nearest first; only slides that `among` lets in."""
        hits = self.owner.call("search()", self.inner.search, code, k, among)
        return self.owner.check_hits(hits, k, self.row_of, among)

    def search_where(
        self, code: Code, k: int, where: Sequence[Filter], record_of: Callable[[str], SlideRecord | None]
    ) -> list[Hit]:
        """Return at most k hits whose records pass all filters, for an index that takes them. record_of: by id."""
        hits: Any = self.owner.call("search_where()", cast(FiltersRows, self.inner).search_where, code, k, where)
        names = [hit.slide_id for hit in hits if isinstance(hit, Hit)] if isinstance(hits, list) else []
        records = {name: record for name in names if (record := record_of(name)) is not None}
        let_in = np.array([all(one(record) for one in where) for record in records.values()], np.bool_)
        return self.owner.check_hits(hits, k, {name: row for row, name in enumerate(records)}, let_in)

    def count_where(self, where: Sequence[Filter]) -> int:
        """Return how many slides pass all filters."""
        return self.owner.call("count_where()", cast(FiltersRows, self.inner).count_where, where)

    @property
    def described(self) -> int:
        """Version of the records that filters are compared with; -1 if the index takes no filters now."""
        return int(self.owner.read(self.inner, "described")) if FiltersRows in type(self.inner).__mro__ else -1

    @property
    def damaged(self) -> Sequence[str]:
        """Slides whose codes were damaged where they are kept."""
        return list(self.owner.read(self.inner, "damaged")) if KeptElsewhere in type(self.inner).__mro__ else []

    def search_many(self, codes: Sequence[Code], k: int, among: Mask | None = None) -> list[list[Hit]]:
        """Return `search(code, k, among)` for every code; the first is compared with `search` itself."""
        inner, owner = self.inner, self.owner
        if not implements(inner, BatchIndex) or len(codes) < 2:
            return [self.search(code, k, among) for code in codes]
        found = owner.check_batch(
            owner.call("search_many()", inner.search_many, codes, k, among), len(codes), "search_many"
        )
        for hits in found:
            owner.check_hits(hits, k, self.row_of, among)
        if [hit.slide_id for hit in found[0]] != [hit.slide_id for hit in self.search(codes[0], k, among)]:
            raise owner.wrong("returned other hits from search_many() than from search()")
        return found

    def probe(self, codes: Sequence[Code]) -> None:
        """Try the index, which is empty, with a few codes: every way to search it."""
        nearest = self.probe_nearest(codes)
        among: Mask = np.ones(len(codes), np.bool_)
        among[self.row_of[nearest.slide_id]] = False
        self.search(codes[0], len(codes), among)
        self.search_many(codes, len(codes), among)

    def probe_nearest(self, codes: Sequence[Code]) -> Hit:
        """Add a few codes to the index, which is empty, and return what is nearest to the first: an equal code."""
        code, owner = codes[0], self.owner
        self.add(codes)
        owner.check_ids(self.ids, [one.slide_id for one in codes])
        hits = self.search(code, len(codes))
        itself = next((hit.distance for hit in hits if hit.slide_id == code.slide_id), None)
        if itself is None or itself > hits[0].distance:
            raise owner.wrong("does not find a code itself as the nearest: distances must grow with difference")
        if (first := self.search(code, 1)) and first[0].distance > hits[0].distance:
            raise owner.wrong("does not return the nearest code when one hit is wanted")
        if len(hits) > sum(one.space == code.space for one in codes):
            raise owner.wrong("finds codes of another space, which cannot be compared")
        return hits[0]

    def save(self, folder: Path) -> None:
        """Write the index into the existing empty `folder`."""
        self.owner.call("save()", self.inner.save, folder)

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote."""
        self._row_of = None
        self.owner.call("load()", self.inner.load, folder)

    @property
    def row_of(self) -> Mapping[str, int]:
        """By slide id, its place in a mask."""
        if self._row_of is None:
            self._row_of = {slide_id: row for row, slide_id in enumerate(self.ids)}
        return self._row_of


def same_code(one: Code, other: Code) -> bool:
    """Return whether two codes are equal to the last bit."""
    return one.space == other.space and one.rows.tobytes() == other.rows.tobytes()
