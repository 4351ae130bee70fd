"""The checks for components that encode text, and for encoders that keep the space of the features."""

from __future__ import annotations

from typing import Any

import numpy as np

from slideseek.interfaces import EncodesText, KeepsSpace
from slideseek_apps.testing.checks import Check, Make, demand, having, prepared, require
from slideseek_apps.testing.training import Toys, encode, fitted

TEXTS = ("a dense carcinoma", "loose connective tissue with few cells", "fat")
TOLERANCE = 1e-5
"""Allowed difference, relative to the largest value: a larger batch may add in another order."""


def featurizer_text_checks() -> tuple[Check, ...]:
    """Return the checks for a featurizer that encodes text."""
    return prepared(*having(EncodesText, text_has_the_width_of_features, text_row_depends_on_its_text_alone))


def encoder_text_checks(toys: Toys) -> tuple[Check, ...]:
    """Return the checks for an encoder that encodes text, or whose codes are in the space of the features."""
    on_text = having(EncodesText, text_has_the_format_of_codes, text_row_depends_on_its_text_alone)
    return prepared(*on_text, *having(KeepsSpace, code_of_one_patch_keeps_its_direction), toys=toys)


def text_has_the_width_of_features(make: Make) -> None:
    """`encode_text` gives finite float32 rows as wide as the features, none of them all zeros."""
    featurizer: Any = make()
    _require_rows(featurizer, featurizer.width)


def text_has_the_format_of_codes(make: Make, toys: Toys) -> None:
    """Codes are floats, and `encode_text` gives finite float32 rows as wide as a code, none of them all zeros."""
    encoder: Any = fitted(make, toys)
    spec = encoder.spec(toys(count=1).bags[0].width)
    require(spec.kind == "float", "codes of floats, to be compared with text", str(spec), "drop EncodesText")
    _require_rows(encoder, spec.width)


def text_row_depends_on_its_text_alone(make: Make, toys: Toys | None = None) -> None:
    """A text alone gives the same row as among others, other texts give other rows, and no text gives none."""
    component: Any = make() if toys is None else fitted(make, toys)
    together = component.encode_text(list(TEXTS))
    alone = np.concatenate([component.encode_text([text]) for text in TEXTS])
    worst = float(np.abs(together - alone).max()) / (float(np.abs(alone).max()) or 1.0)
    fix = "pad every text to one length, mask the padding, and use no statistics over the batch"
    demand(worst <= TOLERANCE, f"a relative difference of {worst:.2g} between a text alone and among others", fix)
    distinct = len(np.unique(alone, axis=0))
    demand(distinct == len(TEXTS), f"{distinct} different rows for {len(TEXTS)} texts", "use the words of the text")
    none = component.encode_text([])
    demand(none.shape == (0, together.shape[1]), f"{none.shape} for no texts", "return float32 (0, width)")


def code_of_one_patch_keeps_its_direction(make: Make, toys: Toys) -> None:
    """The code of a bag of one patch points where its features do, if `in_feature_space` says so."""
    encoder: Any = fitted(make, toys)
    claims = encoder.in_feature_space
    demand(isinstance(claims, bool), f"{claims!r} from in_feature_space", "return True or False")
    if not claims:
        return
    for bag in toys(seed=1, count=4).bags:
        row = bag.features[:1]
        one = type(bag)(bag.slide_id, row, bag.xy[:1], bag.site, None if bag.sides is None else bag.sides[:1], bag.mpp)
        code = encode(encoder, one)
        fix = "return False: text that a featurizer encodes cannot be compared with these codes"
        shape = code.rows.shape
        require(shape == row.shape and code.rows.dtype == np.float32, f"a code of {row.shape} floats", str(shape), fix)
        lengths = float(np.linalg.norm(code.rows) * np.linalg.norm(row))
        cosine = float((code.rows.astype(np.float64) * row).sum()) / (lengths or 1.0)
        require(cosine > 1 - 1e-4, "a cosine of 1 between the features of a patch and its code", f"{cosine:.4f}", fix)


def _require_rows(component: Any, width: int) -> None:
    rows = component.encode_text(list(TEXTS))
    got = f"{rows.dtype} {rows.shape}" if isinstance(rows, np.ndarray) else type(rows).__name__
    fix = "return a NumPy array np.float32 (number of texts, width)"
    demand(got == f"float32 ({len(TEXTS)}, {width})", f"{got} for {len(TEXTS)} texts", fix)
    fix = "return a vector of the shared space, never zeros: they are equally far from everything"
    demand(bool(np.isfinite(rows).all() and rows.any(axis=1).all()), "a row that is zero or not finite", fix)
