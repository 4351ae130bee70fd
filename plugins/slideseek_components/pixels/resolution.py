"""Determine the physical resolution of a slide in µm per pixel; a magnification is only a nominal value.

Everything works on a mapping of property names to strings (OpenSlide's names), so no file is needed. Fields are tried
in this order: what the user states, `openslide.mpp-x/y`, the vendor's own keys, the TIFF resolution tags. The first one
present is used; it is never silently replaced by another that looks better.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from slideseek.errors import SlideError
from slideseek.slides.magnification import describe_magnification, nominal_mpp

PLAUSIBLE_MPP = (0.05, 5.0)
"""µm per pixel a slide scanner can produce; any other value is a wrong unit or a software default."""

NOTE_ANISOTROPY = 0.01
MAX_ANISOTROPY = 0.20
NOTE_CONFLICT = 0.05
NOTE_OBJECTIVE_FACTOR = 2.0

HOW_TO_STATE = "state it: 'slideseek add SLIDE --mpp N', or an `mpp` column in the manifest"

_PRINT_MPP = 25_400.0 / 1_200
"""µm per dot of the finest printers: a coarser density in a file does not come from a scanner."""

_MICROMETRES = {"inch": 25_400.0, "centimeter": 10_000.0}

_OPENSLIDE_KEYS = ("openslide.mpp-x", "openslide.mpp-y", 1.0)

_MIRAX = "mirax.LAYER_0_LEVEL_0_SECTION.MICROMETER_PER_PIXEL"
_DICOM = "dicom.SharedFunctionalGroupsSequence[0].PixelMeasuresSequence[0].PixelSpacing"
_VENDOR_KEYS: tuple[tuple[str, str, float], ...] = (
    ("aperio.MPP", "aperio.MPP", 1.0),
    (f"{_MIRAX}_X", f"{_MIRAX}_Y", 1.0),
    ("ventana.ScanRes", "ventana.ScanRes", 1.0),
    # DICOM uses millimetres, rows (y) before columns (x).
    (f"{_DICOM}[1]", f"{_DICOM}[0]", 1_000.0),
    ("mpp-x", "mpp-y", 1.0),
    ("mpp", "mpp", 1.0),
    ("MPP", "MPP", 1.0),
)

_TAG_PREFIXES = ("tiff", "hamamatsu", "leica", "trestle", "image")

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
    """The resolution of level 0 in µm per pixel, the field it comes from, and notes on it.

    Before it is chosen, it is one statement of the file, which may be implausible or even negative.
    """

    mpp_x: float
    mpp_y: float
    source: str
    notes: tuple[str, ...] = ()

    @property
    def mpp(self) -> float:
        """One number for both axes: the geometric mean, which keeps areas right."""
        return math.sqrt(abs(self.mpp_x * self.mpp_y))


def objective_power(properties: Mapping[str, str]) -> float | None:
    """Return the objective magnification stated in the file, or None."""
    for key in _OBJECTIVE_KEYS:
        value, _ = _number(properties.get(key, ""))
        if value is not None and 0 < value < 1_000:
            return value
    return None


def resolve(properties: Mapping[str, str], stated: float | None = None, name: str = "the slide") -> Resolution:
    """Return the resolution of a slide from its properties, or raise `SlideError` that explains how to state it.

    stated: the user's value (manifest column or option); it overrides the file, and a difference is noted.
    """
    fields, unusable = _fields(properties)
    objective = objective_power(properties)
    if stated is not None:
        chosen = Resolution(stated, stated, "stated by the user")
        _check(chosen, name, "check the --mpp option or the `mpp` column of the manifest")
    elif fields:
        chosen = fields.pop(0)
        _check(chosen, name, _how_to_state(objective))
    else:
        said = f" ({'; '.join(unusable)})" if unusable else ""
        raise SlideError(f"{name} does not state its resolution in µm per pixel{said}", _how_to_state(objective))
    reading = dict.fromkeys(note for field in (chosen, *fields) for note in field.notes)
    notes = (*reading, *unusable, *_remarks(chosen, fields, objective, overrides=stated is not None))
    return replace(chosen, notes=notes)


def _how_to_state(objective: float | None) -> str:
    """Return how to state the resolution, with a suggestion if the file states its objective."""
    if objective is None:
        return HOW_TO_STATE
    return f"{HOW_TO_STATE}; objective {objective:g}x suggests --mpp {nominal_mpp(objective):g}"


def _check(field: Resolution, name: str, fix: str) -> None:
    """Raise `SlideError` for a resolution no scanner has, and for pixels far from square."""
    low, high = PLAUSIBLE_MPP
    for value in (field.mpp_x, field.mpp_y):
        if not (math.isfinite(value) and low <= value <= high):
            remark = ", a screen or print density" if _is_print_density(field) else ""
            raise SlideError(
                f"{name} has an implausible resolution of {value:.4g} µm/px ({field.source}{remark}); "
                f"{low:g} to {high:g} is allowed",
                fix,
            )
    if _apart(field.mpp_x, field.mpp_y) > MAX_ANISOTROPY:
        raise SlideError(
            f"{name} has pixels of {field.mpp_x:.4g} x {field.mpp_y:.4g} µm ({field.source}), more than "
            f"{MAX_ANISOTROPY:.0%} from square",
            fix,
        )


def _remarks(
    chosen: Resolution, others: list[Resolution], objective: float | None, *, overrides: bool
) -> Iterator[str]:
    """Yield notes on the chosen value: pixels that are not square, and every conflicting statement."""
    if _apart(chosen.mpp_x, chosen.mpp_y) > NOTE_ANISOTROPY:
        yield f"pixels are not square: {chosen.mpp_x:.4g} x {chosen.mpp_y:.4g} µm ({chosen.source})"
    verb = "overrides" if overrides else "is used, but the file also states"
    for other in others:
        apart = max(_apart(chosen.mpp_x, other.mpp_x), _apart(chosen.mpp_y, other.mpp_y))
        if apart > NOTE_CONFLICT and not _is_print_density(other):
            yield f"{_describe(chosen)} {verb} {_describe(other)}"
    if objective is not None:
        factor = chosen.mpp / nominal_mpp(objective)
        if not 1 / NOTE_OBJECTIVE_FACTOR <= factor <= NOTE_OBJECTIVE_FACTOR:
            yield f"{_describe(chosen)} does not match the objective: {describe_magnification(objective)}"


def _describe(field: Resolution) -> str:
    both = f"{field.mpp_x:.4g}" if field.mpp_x == field.mpp_y else f"{field.mpp_x:.4g} x {field.mpp_y:.4g}"
    return f"{both} µm/px ({field.source})"


def _fields(properties: Mapping[str, str]) -> tuple[list[Resolution], list[str]]:
    """Return every statement about the resolution in order of trust, and a remark on each invalid one."""
    read = [_pair(properties, *keys) for keys in (_OPENSLIDE_KEYS, *_VENDOR_KEYS)]
    read += [_tags(properties, prefix) for prefix in _TAG_PREFIXES]
    return [item for item in read if isinstance(item, Resolution)], [
        item for item in read if isinstance(item, str) and item
    ]


def _pair(properties: Mapping[str, str], key_x: str, key_y: str, factor: float) -> Resolution | str:
    """Read one number per axis; return "" if both are missing, and a remark if a value is not a number."""
    x, note_x = _number(properties.get(key_x, ""))
    y, note_y = _number(properties.get(key_y, ""))
    notes = [f"{key}: {note}" for key, note in {key_x: note_x, key_y: note_y}.items() if note]
    if x is None and y is None:
        return "; ".join(notes)
    if x is None:
        x = y
        notes.append(f"only {key_y} is known: used for both axes")
    if y is None:
        y = x
        notes.append(f"only {key_x} is known: used for both axes")
    return Resolution((x or 0.0) * factor, (y or 0.0) * factor, key_x, tuple(notes))


def _tags(properties: Mapping[str, str], prefix: str) -> Resolution | str:
    """Read pixels per unit of length; without a unit, or with zero for unknown, they say nothing."""
    unit = properties.get(f"{prefix}.ResolutionUnit", "").strip().lower()
    field = _pair(properties, f"{prefix}.XResolution", f"{prefix}.YResolution", 1.0)
    if isinstance(field, str) or unit not in _MICROMETRES:
        return field if isinstance(field, str) else ""
    if field.mpp_x <= 0 or field.mpp_y <= 0:
        return ""
    source = f"{prefix}.XResolution of {field.mpp_x:.6g} per {unit}"
    return Resolution(_MICROMETRES[unit] / field.mpp_x, _MICROMETRES[unit] / field.mpp_y, source, field.notes)


def _number(text: str) -> tuple[float | None, str]:
    """Parse a number; return a note if it has a decimal comma or is not a number."""
    clean = text.strip()
    if not clean:
        return None, ""
    for written, note in ((clean, ""), (clean.replace(",", ".", 1), f"{clean!r} read with a decimal comma")):
        try:
            return float(written), note
        except ValueError:
            continue
    return None, f"{clean[:40]!r} is not a number"


def _apart(a: float, b: float) -> float:
    """Return the relative difference of two numbers, infinite when one of them is zero."""
    return abs(a - b) / min(abs(a), abs(b)) if a and b else math.inf


def _is_print_density(field: Resolution) -> bool:
    """Return whether a field is a screen or print density, which software writes without knowing the scanner."""
    return field.mpp >= _PRINT_MPP
