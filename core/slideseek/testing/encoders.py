"""The checks for encoders. A trainable encoder is fitted on toy bags first.

The checks for training and saving are in `slideseek.testing.training`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from slideseek.errors import EmptyBagError, SlideseekError
from slideseek.interfaces import Encoder
from slideseek.testing.checks import Check, Make, prepared, require, require_error
from slideseek.testing.code_equality import require_same_code, require_same_rows
from slideseek.testing.components import COMPONENT_CHECKS, require_protocol
from slideseek.testing.toys import toy_bags
from slideseek.testing.training import encode, fitted, training_checks
from slideseek.types import CodeSpec

WIDTHS = (16, 21)
"""Feature widths of the toy bags: an even and an odd one, so at least one needs padding bits."""


def encoder_checks(widths: tuple[int, ...] = WIDTHS) -> tuple[Check, ...]:
    """Return all checks for an encoder.

    widths: feature widths of the toy bags; pass your own if the encoder accepts only certain ones.
    """
    on_widths = (spec_is_known_in_advance, codes_honour_the_spec, padding_bits_are_zero)
    on_bags = (
        patch_order_does_not_matter,
        one_patch_is_enough,
        empty_bag_is_refused,
        bad_numbers_are_refused,
        bag_is_left_alone,
        slide_id_only_names_the_code,
        encoding_leaves_no_trace,
        same_seed_same_codes,
        *training_checks(),
    )
    return (
        *prepared(encodes_as_the_interface_says, *COMPONENT_CHECKS),
        *prepared(*on_widths, widths=widths),
        *prepared(*on_bags, width=widths[0]),
    )


def encodes_as_the_interface_says(make: Make) -> None:
    """The component has every member of the Encoder interface."""
    require_protocol(make, Encoder)


def spec_is_known_in_advance(make: Make, widths: tuple[int, ...]) -> None:
    """`spec` gives the format of the codes before any bag is seen, and the same after fitting."""
    for width in widths:
        before = make().spec(width)
        known = isinstance(before, CodeSpec) and before.kind in ("float", "bits", "sparse") and before.width > 0
        require(
            known,
            f"spec({width}) to be a CodeSpec of kind float, bits or sparse and a positive width",
            repr(before),
            "return CodeSpec(kind, width, many) from the options and the width alone",
        )
        after = fitted(make, width).spec(width)
        require(
            before == after,
            f"spec({width}) to be the same before and after fitting, {before}",
            str(after),
            "derive the spec from the options and the width, never from learnt state",
        )


def codes_honour_the_spec(make: Make, widths: tuple[int, ...]) -> None:
    """Every code has the kind, width and number of rows given by `spec`, for several feature widths."""
    for width in widths:
        encoder = fitted(make, width)
        spec = encoder.spec(width)
        for bag in toy_bags(seed=1, count=4, width=width).bags:
            mismatch = encode(encoder, bag).mismatch(spec)
            require(
                not mismatch,
                f"a code of {spec} from {len(bag)} patches of width {width}",
                mismatch,
                "use one formula in spec() and encode(); pack bits with np.packbits(..., axis=1)",
            )


def padding_bits_are_zero(make: Make, widths: tuple[int, ...]) -> None:
    """The padding bits in the last byte of each row are zero."""
    for width in widths:
        encoder = fitted(make, width)
        spec = encoder.spec(width)
        if spec.kind != "bits":
            continue
        rows = encode(encoder, toy_bags(seed=1, width=width).bags[0]).rows
        padding = np.unpackbits(rows.astype(np.uint8), axis=1)[:, spec.width :]
        require(
            not padding.any(),
            f"zeros after bit {spec.width} of a row",
            f"{int(padding.sum())} bits set in the padding of {len(rows)} rows",
            "pack rows of exactly `width` bits, most significant bit first, as np.packbits does",
        )


def patch_order_does_not_matter(make: Make, width: int) -> None:
    """A bag with its patches in another order gives the same code: equal bits, floats within 1e-6."""
    encoder = fitted(make, width)
    for number, bag in enumerate(toy_bags(seed=1, count=4, width=width).bags):
        order = np.random.default_rng(number).permutation(len(bag))
        shuffled = replace(bag, features=bag.features[order], xy=bag.xy[order])
        require_same_rows(
            encode(encoder, bag),
            encode(encoder, shuffled),
            "the same code for the patches in another order",
            "use sums and sets over patches; sum in float64 or in a fixed order, so no sign near zero flips",
        )


def one_patch_is_enough(make: Make, width: int) -> None:
    """A bag of one patch gives a code."""
    encoder = fitted(make, width)
    bag = toy_bags(seed=1, width=width).bags[0]
    code = encode(encoder, replace(bag, features=bag.features[:1], xy=bag.xy[:1]))
    mismatch = code.mismatch(encoder.spec(width))
    require(
        not mismatch,
        f"a code of {encoder.spec(width)} from one patch",
        mismatch,
        "handle variances and differences over patches: one patch has none",
    )


def empty_bag_is_refused(make: Make, width: int) -> None:
    """A bag without patches raises EmptyBagError."""
    encoder = fitted(make, width)
    bag = toy_bags(seed=1, width=width).bags[0]
    empty = replace(bag, features=bag.features[:0], xy=bag.xy[:0])
    require_error(
        partial(encoder.encode, empty),
        (EmptyBagError,),
        "for a bag without patches",
        "begin encode() with: if len(bag) == 0: raise EmptyBagError(bag.slide_id)",
    )


def bad_numbers_are_refused(make: Make, width: int) -> None:
    """NaN or infinite features raise SlideseekError instead of giving a code."""
    encoder = fitted(make, width)
    bag = toy_bags(seed=1, width=width).bags[0]
    for value in (np.nan, np.inf, -np.inf):
        features = bag.features.copy()
        features[len(features) // 2, width // 2] = value
        spoilt = replace(bag, features=features)
        require_error(
            partial(encoder.encode, spoilt),
            (SlideseekError,),
            f"for a bag with {value} in its features",
            "check np.isfinite(bag.features).all() and name the slide in the error",
        )


def bag_is_left_alone(make: Make, width: int) -> None:
    """`encode` does not write into the bag, and accepts a read-only one."""
    encoder = fitted(make, width)
    bag = toy_bags(seed=1, width=width).bags[0]
    copy = replace(bag, features=bag.features.copy(), xy=bag.xy.copy())
    from_copy = encode(encoder, copy)
    require(
        np.array_equal(copy.features, bag.features) and np.array_equal(copy.xy, bag.xy),
        "the bag unchanged",
        "changed features or coordinates after encode()",
        "work on a copy: x = bag.features - mean, not x -= mean",
    )
    require_same_code(from_copy, encode(encoder, bag), "the same code for a read-only bag", "copy before writing")


def slide_id_only_names_the_code(make: Make, width: int) -> None:
    """The code has the bag's slide id, and another id changes nothing else."""
    encoder = fitted(make, width)
    bag = toy_bags(width=width).bags[0]  # the encoder was fitted on it: it could have stored its id and label
    renamed = replace(bag, slide_id="renamed")
    code = encode(encoder, renamed)
    require(
        code.slide_id == "renamed",
        "Code.slide_id to be the bag's, 'renamed'",
        repr(code.slide_id),
        "use bag.slide_id in the code",
    )
    require_same_code(
        encode(encoder, bag),
        code,
        "the same rows when only the slide id differs",
        "compute the code only from features, coordinates and site; an id can reveal the label",
    )


def encoding_leaves_no_trace(make: Make, width: int) -> None:
    """Encoding A, then B, then A again gives the first code of A."""
    encoder = fitted(make, width)
    a, b = toy_bags(seed=1, count=2, width=width).bags
    first = encode(encoder, a)
    encode(encoder, b)
    require_same_code(
        first,
        encode(encoder, a),
        "the same code for a bag after another one was encoded",
        "do not change self or use random numbers in encode()",
    )


def same_seed_same_codes(make: Make, width: int) -> None:
    """Two fresh encoders with equal options, fitted on the same bags, give the same codes."""
    first, second = fitted(make, width), fitted(make, width)
    for bag in toy_bags(seed=1, count=4, width=width).bags:
        require_same_code(
            encode(first, bag),
            encode(second, bag),
            "two encoders with equal options, fitted on the same bags, to agree",
            "create a generator from a seed option in fit(), and use no global random state",
        )
