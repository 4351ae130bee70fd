"""The values that flow from one stage to the next: frozen, slotted, without a reference to any component.

Frames and units: `xy` is always the top-left corner in level-0 pixels, x to the right, y down; `mpp` is
micrometres per pixel; `size` is a side in pixels *at* `mpp`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slideseek.errors import SlideError

Float32: TypeAlias = NDArray[np.float32]
Float64: TypeAlias = NDArray[np.float64]
Int32: TypeAlias = NDArray[np.int32]
Int64: TypeAlias = NDArray[np.int64]
UInt8: TypeAlias = NDArray[np.uint8]
Mask: TypeAlias = NDArray[np.bool_]

NUMERIC_SIGNS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

CodeKind: TypeAlias = Literal["float", "bits", "sparse"]


def is_url(path: str) -> bool:
    """Return whether the path of a slide is a URL: the slide lies elsewhere."""
    scheme, sign, _ = path.partition("://")
    return bool(sign) and "/" not in scheme


@dataclass(frozen=True, slots=True)
class SlideRecord:
    """One row of the manifest: what is known about a slide apart from its pixels.

    `mpp` is a resolution stated by the user (it overrides the file's own); `contours` is a GeoJSON file that outlines
    the tissue to use; `fields` are the free columns. An empty string means unknown. `measured` is what a build found on
    the pixels: `stain`, `blur_um` and shares of artefacts.
    """

    id: str
    path: str
    patient: str = ""
    site: str = ""
    label: str = ""
    center: str = ""
    mpp: float | None = None
    contours: str = ""
    fields: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    measured: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def columns(self) -> Mapping[str, str]:
        """The free columns and what was measured; what the manifest states takes precedence."""
        return {**self.measured, **{k: v for k, v in self.fields.items() if v or k not in self.measured}}

    def facts(self) -> dict[str, Any]:
        """Return the record as plain data, without the path of its file."""
        return {
            "id": self.id,
            "patient": self.patient,
            "site": self.site,
            "label": self.label,
            "center": self.center,
            "fields": dict(self.fields),
            "measured": dict(self.measured),
        }

    def readable_facts(self) -> dict[str, str]:
        """Return what is known about the slide under the names readers use, without the id and the free columns."""
        known = {"patient": self.patient, "site": self.site, "diagnosis": self.label, "centre": self.center}
        return {name: value for name, value in known.items() if value}


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition on one field of a slide's record.

    free: the field is a free column of the manifest, or was measured. values: what it is compared with; one value
    except for `in`.
    """

    field: str
    free: bool
    sign: str
    values: tuple[str, ...]

    def __call__(self, record: SlideRecord) -> bool:
        """Return whether a slide passes. A numeric comparison fails for a value that is not a number."""
        stated = record.columns.get(self.field, "") if self.free else getattr(record, self.field)
        got = "" if stated is None else str(stated)
        if self.sign in ("=", "in"):
            return got in self.values
        if self.sign in ("!=", "not in"):
            return got not in self.values
        try:
            return NUMERIC_SIGNS[self.sign](float(got), float(self.values[0]))
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class Patches:
    """The selected patches of one slide, in the selector's order.

    xy: int32 (n, 2), top-left in level-0 pixels. size: side in pixels at `mpp`. mpp: float64 (n,), the
    resolution each patch is read at: one value repeated, unless a selector samples several magnifications.
    tissue_um2: area of the tissue found, left_out_um2: of the part that no patch to choose from shows; None if the
    selector does not measure them. measured: facts about the slide, such as its stain. scores: facts about each patch
    by name, float32 (n,), such as the share that pen covers.
    """

    slide_id: str
    xy: Int32
    size: int
    mpp: Float64
    tissue_um2: float | None = None
    left_out_um2: float | None = None
    measured: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, Float32] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.xy.dtype != np.int32 or self.xy.ndim != 2 or self.xy.shape[1] != 2:
            raise ValueError(f"Patches.xy must be int32 (n, 2), not {self.xy.dtype} {self.xy.shape}")
        if self.mpp.dtype != np.float64 or self.mpp.shape != (len(self.xy),):
            raise ValueError(f"Patches.mpp must be float64 ({len(self.xy)},), not {self.mpp.dtype} {self.mpp.shape}")
        if self.size < 1:
            raise ValueError(f"Patches.size must be at least 1 pixel, not {self.size}")
        if any(one.dtype != np.float32 or one.shape != (len(self.xy),) for one in self.scores.values()):
            raise ValueError(f"Patches.scores must each be float32 ({len(self.xy)},)")

    @classmethod
    def at(cls, slide_id: str, xy: NDArray[Any], size: int, mpp: float) -> Patches:
        """Create patches that share one resolution; `xy` is any (n, 2) array of integers."""
        corners = np.ascontiguousarray(xy, dtype=np.int32).reshape(-1, 2)
        return cls(slide_id, corners, size, np.full(len(corners), mpp, dtype=np.float64))

    def __len__(self) -> int:
        return len(self.xy)

    def take(self, rows: NDArray[Any]) -> Patches:
        """Return some of the patches, by position or mask, with their scores."""
        scores = {name: score[rows] for name, score in self.scores.items()}
        return replace(self, xy=self.xy[rows], mpp=self.mpp[rows], scores=scores)

    @property
    def represented(self) -> float | None:
        """Share of the tissue that the patches to choose from show; None if it was not measured or there is none."""
        if not self.tissue_um2 or self.left_out_um2 is None:
            return None
        return 1 - self.left_out_um2 / self.tissue_um2


@dataclass(frozen=True, slots=True)
class SlideFacts:
    """What a reader knows about a slide besides its pixels.

    objective: magnification stated in the file. mpp_xy: µm per level-0 pixel across and down; mpp_source: the field
    they come from. levels: (width, height, level-0 pixels per pixel) of each. nbytes: pixels held in memory.
    """

    format: str
    objective: float | None
    mpp_xy: tuple[float, float]
    mpp_source: str
    levels: tuple[tuple[int, int, float], ...]
    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class FeaturizerCard:
    """Facts about a featurizer, available without loading any weights.

    width: length of a feature vector, None if it depends on weights not yet present. patch_size (pixels) and mpp (µm
    per pixel): the patches it is meant for, not a limit. licence: of the weights, or of the code if there are none.
    weights: where they come from, "" if none are needed. present: whether they are in place.
    """

    width: int | None
    patch_size: int
    mpp: float
    licence: str
    weights: str
    present: bool


@dataclass(frozen=True, slots=True)
class Bag:
    """The set of patch features of one slide. It has no label, so an encoder cannot use one when it encodes.

    features: float32 (n, width). xy: int32 (n, 2), top-left in level-0 pixels, row i belongs to feature i. sides:
    float64 (n,), side of each patch in level-0 pixels; mpp: µm per level-0 pixel. Both are None if unknown, as for
    features imported without them.
    """

    slide_id: str
    features: Float32
    xy: Int32
    site: str = ""
    sides: Float64 | None = None
    mpp: float | None = None

    def __post_init__(self) -> None:
        if self.features.dtype != np.float32 or self.features.ndim != 2:
            got = f"{self.features.dtype} {self.features.shape}"
            raise ValueError(f"Bag.features must be float32 (n, width), not {got}")
        if self.xy.dtype != np.int32 or self.xy.shape != (len(self.features), 2):
            raise ValueError(f"Bag.xy must be int32 ({len(self.features)}, 2), not {self.xy.dtype} {self.xy.shape}")
        sides = self.sides
        if sides is not None and (sides.dtype != np.float64 or sides.shape != (len(self.features),)):
            raise ValueError(f"Bag.sides must be float64 ({len(self.features)},), not {sides.dtype} {sides.shape}")

    @property
    def width(self) -> int:
        """Length of one feature vector."""
        return int(self.features.shape[1])

    @property
    def centres_um(self) -> Float64:
        """Centres of the patches in µm from the slide's top-left corner, float64 (n, 2); an error if unknown."""
        if self.sides is None or self.mpp is None:
            raise SlideError(
                f"the size of the patches of slide {self.slide_id!r} is unknown, and this encoder needs it",
                "import the features with the size of a patch and the slide's mpp, or use another encoder",
            )
        centres: Float64 = (self.xy + self.sides[:, None] / 2) * self.mpp
        return centres

    def __len__(self) -> int:
        return len(self.features)


@dataclass(frozen=True, slots=True)
class CodeSpec:
    """The format of an encoder's codes, known before any slide is opened.

    kind: `float` (float32 values), `bits` (packed in uint8), `sparse` (few non-zero floats).
    width: values or bits in one row. many: several rows per slide (a set), else exactly one.
    """

    kind: CodeKind
    width: int
    many: bool = False

    @property
    def row_shape(self) -> tuple[int, np.dtype[Any]]:
        """Columns and dtype of `Code.rows` for this spec."""
        if self.kind == "bits":
            return (self.width + 7) // 8, np.dtype(np.uint8)
        return self.width, np.dtype(np.float32)

    @property
    def unit(self) -> str:
        """Unit of the distances between such codes, "" if they have none."""
        return "bits" if self.kind == "bits" else ""

    def __str__(self) -> str:
        unit = {"bits": "bits", "float": "floats", "sparse": "sparse floats"}[self.kind]
        return f"{'sets of ' if self.many else ''}{self.width} {unit}"


@dataclass(frozen=True, slots=True)
class Code:
    """The compact code of one slide: n rows for a set method, one row for a single-vector method.

    rows: uint8 (n, ceil(width / 8)) with bits packed most significant first and zero padding at the end, or
    float32 (n, width). space: names the codes it may be compared with (the site of a conditioned code);
    empty means every code of the engine.
    """

    slide_id: str
    rows: UInt8 | Float32
    space: str = ""

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or self.rows.dtype not in (np.dtype(np.uint8), np.dtype(np.float32)):
            got = f"{self.rows.dtype} {self.rows.shape}"
            raise ValueError(f"Code.rows must be uint8 or float32 (n, columns), not {got}")

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """Bytes of the code itself."""
        return int(self.rows.nbytes)

    def mismatch(self, spec: CodeSpec) -> str:
        """Return "" if the code matches `spec`, else what is wrong."""
        columns, dtype = spec.row_shape
        if self.rows.dtype != dtype:
            return f"rows are {self.rows.dtype}, the spec ({spec}) needs {dtype}"
        if self.rows.shape[1] != columns:
            return f"rows have {self.rows.shape[1]} columns, the spec ({spec}) needs {columns}"
        if len(self.rows) == 0:
            return "the code has no rows"
        if not spec.many and len(self.rows) != 1:
            return f"{len(self.rows)} rows, the spec ({spec}) needs exactly one"
        return ""


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer of a search. Smaller distance is more similar; equal distances are ordered by slide id."""

    slide_id: str
    distance: float
