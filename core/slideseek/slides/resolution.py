"""Decide the physical resolution of a slide: µm per pixel is the truth, magnification only a nickname.

Everything works on a mapping of property names to strings (OpenSlide's names), so no file is needed. Fields are tried
in this order: what the user states, `openslide.mpp-x/y`, the vendor's own keys, the TIFF resolution tags. The first one
that is present counts; it is never replaced silently by another one that looks nicer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slideseek.errors import SlideError

PLAUSIBLE_MPP = (0.05, 5.0)
"""µm per pixel a slide scanner can produce; a value outside is a wrong unit or a default of some software."""

NOTE_ANISOTROPY = 0.01
MAX_ANISOTROPY = 0.20
NOTE_CONFLICT = 0.05
NOTE_OBJECTIVE_FACTOR = 2.0

HOW_TO_STATE = "state it with --mpp or in an `mpp` column of the manifest"

_SCREEN_DPI = (72.0, 96.0, 100.0, 150.0, 200.0, 300.0)
_MICROMETRES = {"inch": 25_400.0, "centimeter": 10_000.0}

_VENDOR_KEYS: tuple[tuple[str, str, float], ...] = (
    ("aperio.MPP", "aperio.MPP", 1.0),
    (
        "mirax.LAYER_0_LEVEL_0_SECTION.MICROMETER_PER_PIXEL_X",
        "mirax.LAYER_0_LEVEL_0_SECTION.MICROMETER_PER_PIXEL_Y",
        1.0,
    ),
    ("ventana.ScanRes", "ventana.ScanRes", 1.0),
    # DICOM gives millimetres, rows (y) before columns (x).
    (
        "dicom.SharedFunctionalGroupsSequence[0].PixelMeasuresSequence[0].PixelSpacing[1]",
        "dicom.SharedFunctionalGroupsSequence[0].PixelMeasuresSequence[0].PixelSpacing[0]",
        1_000.0,
    ),
    ("mpp-x", "mpp-y", 1.0),
    ("mpp", "mpp", 1.0),
    ("MPP", "MPP", 1.0),
)

_TAG_KEYS = ("tiff", "hamamatsu", "leica", "trestle", "image")

_OBJECTIVE_KEYS = (
    "openslide.objective-power",
    "aperio.AppMag",
    "hamamatsu.SourceLens",
    "leica.objective",
    "mirax.GENERAL.OBJECTIVE_MAGNIFICATION",
    "ventana.Magnification",
    "sakura.NominalLensMagnification",
)


@dataclass(frozen=True, slots=True)
class Resolution:
    """The resolution of level 0 in µm per pixel, the field it comes from, and what is worth saying about it."""

    mpp_x: float
    mpp_y: float
    source: str
    notes: tuple[str, ...] = ()

    @property
    def mpp(self) -> float:
        """One number for both axes: the geometric mean, which keeps areas right."""
        return math.sqrt(self.mpp_x * self.mpp_y)


@dataclass(frozen=True, slots=True)
class _Field:
    """One statement of the file about its resolution; `notes` say how its text was understood."""

    source: str
    mpp_x: float
    mpp_y: float
    notes: tuple[str, ...] = ()

    @property
    def mpp(self) -> float:
        return math.sqrt(abs(self.mpp_x * self.mpp_y))


def nominal_mpp(magnification: float) -> float:
    """Return the µm per pixel a magnification usually stands for: 10 / magnification (20x = 0.5)."""
    if not (math.isfinite(magnification) and magnification > 0):
        raise ValueError(f"magnification: a number above 0, not {magnification}")
    return 10.0 / magnification


def describe_magnification(magnification: float) -> str:
    """Return the echo of a magnification in words, e.g. "20x = 0.50 µm/px (nominal)"."""
    return f"{magnification:g}x = {nominal_mpp(magnification):.2f} µm/px (nominal)"


def finer_than_scanned(slide_mpp: float, asked: float) -> str:
    """Return a note when `asked` is finer than the scan (1 % of slack for rounded values), else ""."""
    if asked < slide_mpp * 0.99:
        return f"asked {asked:.2f} µm/px but the slide has only {slide_mpp:.2f}: upsampled"
    return ""


def objective_power(properties: Mapping[str, str]) -> float | None:
    """Return the magnification of the objective the file names, or None."""
    for key in _OBJECTIVE_KEYS:
        value, _ = _number(properties.get(key, ""))
        if value is not None and 0 < value < 1_000:
            return value
    return None


def resolve(properties: Mapping[str, str], stated: float | None = None, name: str = "the slide") -> Resolution:
    """Return the resolution of a slide from its properties, or raise `SlideError` with the way to state it.

    stated: what the user says (manifest column or option); it overrides the file and a disagreement is noted.
    """
    fields = list(_fields(properties))
    objective = objective_power(properties)
    if stated is not None:
        chosen = _Field("stated by the user", stated, stated)
    elif fields:
        chosen = fields.pop(0)
    else:
        raise SlideError(f"{name} does not say its resolution (µm per pixel)", _hint(objective))
    _check(chosen, name, objective)
    return Resolution(
        chosen.mpp_x, chosen.mpp_y, chosen.source, (*chosen.notes, *_remarks(chosen, fields, objective, stated))
    )


def _hint(objective: float | None) -> str:
    """Return how to state the resolution, with a suggestion where the file names its objective."""
    if objective is None:
        return HOW_TO_STATE
    return f"{HOW_TO_STATE}; objective {objective:g}x suggests --mpp {nominal_mpp(objective):g}"


def _default(field: _Field) -> str:
    """Return a remark on a density that image software writes without knowing the scanner, else ""."""
    return f", the {25_400 / field.mpp:.0f} dpi of image software" if _is_software_default(field) else ""


def _check(field: _Field, name: str, objective: float | None) -> None:
    low, high = PLAUSIBLE_MPP
    hint = _hint(objective)
    for value in (field.mpp_x, field.mpp_y):
        if not (math.isfinite(value) and low <= value <= high):
            raise SlideError(
                f"{name} has an implausible resolution of {value:.4g} µm/px ({field.source}{_default(field)}); "
                f"{low:g} to {high:g} is allowed",
                hint,
            )
    if _apart(field.mpp_x, field.mpp_y) > MAX_ANISOTROPY:
        raise SlideError(
            f"{name} has pixels of {field.mpp_x:.4g} x {field.mpp_y:.4g} µm ({field.source}), more than "
            f"{MAX_ANISOTROPY:.0%} from square",
            hint,
        )


def _remarks(chosen: _Field, others: list[_Field], objective: float | None, stated: float | None) -> Iterator[str]:
    """Yield what a person should hear about the chosen value: anisotropy and every disagreement."""
    if _apart(chosen.mpp_x, chosen.mpp_y) > NOTE_ANISOTROPY:
        yield f"pixels are not square: {chosen.mpp_x:.4g} x {chosen.mpp_y:.4g} µm ({chosen.source})"
    for other in others:
        if _is_software_default(other):
            continue
        if max(_apart(chosen.mpp_x, other.mpp_x), _apart(chosen.mpp_y, other.mpp_y)) > NOTE_CONFLICT:
            verb = "overrides" if stated is not None else "disagrees with"
            yield (
                f"{chosen.mpp:.4g} µm/px ({chosen.source}) {verb} "
                f"{other.mpp_x:.4g} x {other.mpp_y:.4g} µm/px ({other.source})"
            )
    if objective is not None:
        factor = chosen.mpp / nominal_mpp(objective)
        if factor > NOTE_OBJECTIVE_FACTOR or factor < 1 / NOTE_OBJECTIVE_FACTOR:
            yield (
                f"{chosen.mpp:.4g} µm/px ({chosen.source}) does not go with the objective: "
                f"{describe_magnification(objective)}"
            )


def _fields(properties: Mapping[str, str]) -> Iterator[_Field]:
    """Yield every statement about the resolution, in order of trust."""
    pairs = (("openslide.mpp-x", "openslide.mpp-y", 1.0), *_VENDOR_KEYS)
    for key_x, key_y, factor in pairs:
        field = _pair(properties, key_x, key_y, factor)
        if field is not None:
            yield field
    for prefix in _TAG_KEYS:
        field = _tags(properties, prefix)
        if field is not None:
            yield field


def _pair(properties: Mapping[str, str], key_x: str, key_y: str, factor: float) -> _Field | None:
    """Read one number an axis; None when neither is there or a number."""
    x, note_x = _number(properties.get(key_x, ""))
    y, note_y = _number(properties.get(key_y, ""))
    notes = [f"{key}: {note}" for key, note in {key_x: note_x, key_y: note_y}.items() if note]
    if x is None and y is None:
        return None
    if x is None or y is None:
        notes.append(f"only {key_y if x is None else key_x} is usable: taken for both axes")
    value_x = x if x is not None else y
    value_y = y if y is not None else x
    return _Field(key_x, (value_x or 0.0) * factor, (value_y or 0.0) * factor, tuple(notes))


def _tags(properties: Mapping[str, str], prefix: str) -> _Field | None:
    """Read pixels per unit of length; without a unit they say nothing physical."""
    unit = properties.get(f"{prefix}.ResolutionUnit", properties.get("tiff.ResolutionUnit", "")).strip().lower()
    micrometres = _MICROMETRES.get(unit)
    field = _pair(properties, f"{prefix}.XResolution", f"{prefix}.YResolution", 1.0)
    if field is None or micrometres is None:
        return None
    # Zero pixels per inch is a way to say "unknown".
    if field.mpp_x <= 0 or field.mpp_y <= 0:
        return None
    source = f"{prefix}.XResolution = {field.mpp_x:g} per {unit}"
    return _Field(source, micrometres / field.mpp_x, micrometres / field.mpp_y, field.notes)


def _number(text: str) -> tuple[float | None, str]:
    """Parse a number; return it with a note when it was written with a decimal comma."""
    clean = text.strip()
    if not clean:
        return None, ""
    try:
        return float(clean), ""
    except ValueError:
        pass
    if clean.count(",") == 1 and "." not in clean:
        try:
            return float(clean.replace(",", ".")), f"{clean!r} read as a decimal comma"
        except ValueError:
            pass
    return None, f"{clean[:40]!r} is not a number"


def _apart(a: float, b: float) -> float:
    """Return the relative difference of two positive numbers."""
    return abs(a - b) / min(abs(a), abs(b)) if a and b else math.inf


def _is_software_default(field: _Field) -> bool:
    """Tell whether a field is a print or screen density, which image software writes without knowing the scanner."""
    dpi = 25_400.0 / field.mpp if field.mpp else 0.0
    return any(abs(dpi - screen) < 0.5 for screen in _SCREEN_DPI)
