"""The checks for encoders. A trainable encoder is fitted on toy bags first.

The checks for training and saving are in `slideseek_apps.testing.training`.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from slideseek.errors import EmptyBagError, NotAttributableError, SlideseekError
from slideseek.interfaces import Attributable, BatchEncoder, Featurizer, NeedsFeaturizer, implements
from slideseek.options import nested_components
from slideseek.types import Bag, Code, CodeSpec
from slideseek_apps.testing.checks import Check, Make, demand, having, prepared, require, require_error
from slideseek_apps.testing.code_equality import require_same_code, require_same_rows
from slideseek_apps.testing.components import component_checks
from slideseek_apps.testing.texts import encoder_text_checks
from slideseek_apps.testing.toys import toy_bags, toy_images
from slideseek_apps.testing.training import Toys, encode, fitted, require_equal_encoders, training_checks

WIDTHS = (16, 21)
"""Feature widths of the toy bags: an even and an odd one, so at least one needs padding bits."""

POOL = 48
"""Toy images whose features the bags are drawn from, if the encoder needs those of a certain featurizer."""


def encoder_checks(widths: tuple[int, ...] = WIDTHS, featurizer: Featurizer | None = None) -> tuple[Check, ...]:
    """Return all checks for an encoder.

    widths: feature widths of the toy bags; pass your own if the encoder accepts only certain ones. featurizer: one
    whose features of toy images are used instead of random ones, for an encoder that needs them.
    """
    every = toys_of(widths, featurizer)
    on_widths = (spec_is_known_in_advance, codes_honour_the_spec, padding_bits_are_zero)
    on_bags = (
        different_slides_get_different_codes,
        patch_order_does_not_matter,
        resolution_of_the_scan_does_not_matter,
        unknown_geometry_is_no_crash,
        one_patch_is_enough,
        empty_bag_is_refused,
        bad_numbers_are_refused,
        bag_is_left_alone,
        slide_id_only_names_the_code,
        encoding_leaves_no_trace,
        same_seed_same_codes,
        *training_checks(),
        *having(Attributable, contributions_add_up),
        *having(BatchEncoder, batch_equals_one_by_one),
    )
    return (
        *component_checks("encoder"),
        *prepared(*having(NeedsFeaturizer, featurizers_are_named)),
        *prepared(*on_widths, every=every),
        *prepared(*on_bags, toys=every[0]),
        *encoder_text_checks(every[0]),
    )


def toys_of(widths: tuple[int, ...], featurizer: Featurizer | None) -> list[Toys]:
    """Return toy bags of each width, or of a featurizer's features of toy images."""
    if featurizer is None:
        return [partial(toy_bags, width=width) for width in widths]
    return [partial(toy_bags, pool=featurizer.featurize(toy_images(count=POOL, side=224)))]


def spec_is_known_in_advance(make: Make, every: list[Toys]) -> None:
    """`spec` gives the format of the codes before any bag is seen, and the same after fitting."""
    for toys in every:
        width = toys(count=1).bags[0].width
        before = make().spec(width)
        known = isinstance(before, CodeSpec) and before.kind in ("float", "bits", "sparse") and before.width > 0
        fix = "return CodeSpec(kind, width, many) from the options and the width alone"
        want = f"spec({width}) to be a CodeSpec of kind float, bits or sparse and a positive width"
        require(known, want, repr(before), fix)
        after = fitted(make, toys).spec(width)
        fix = "derive the spec from the options and the width, never from learnt state"
        require(before == after, f"spec({width}) to be the same before and after fitting, {before}", str(after), fix)


def different_slides_get_different_codes(make: Make, toys: Toys) -> None:
    """Slides of different classes do not all get the same code."""
    encoder = fitted(make, toys)
    codes = [encode(encoder, bag) for bag in toys(seed=1, count=8).bags]
    same = all(code.rows.tobytes() == codes[0].rows.tobytes() for code in codes[1:])
    fix = "use the features in encode(): with equal codes every slide is equally near"
    require(not same, f"different codes for {len(codes)} different slides", "the same code for all of them", fix)


def codes_honour_the_spec(make: Make, every: list[Toys]) -> None:
    """Every code has the kind, width and number of rows given by `spec` and finite values, for several widths."""
    for toys in every:
        encoder, width = fitted(make, toys), toys(count=1).bags[0].width
        spec = encoder.spec(width)
        for bag in toys(seed=1, count=4).bags:
            code = encode(encoder, bag)
            mismatch = code.mismatch(spec)
            fix = "use one formula in spec() and encode(); pack bits with np.packbits(..., axis=1)"
            require(not mismatch, f"a code of {spec} from {len(bag)} patches of width {width}", mismatch, fix)
            bad = int(np.count_nonzero(~np.isfinite(code.rows)))
            fix = "look for a division by 0, the logarithm of 0, or the variance of one patch"
            require(not bad, "finite values in every code", f"NaN or infinity in {bad} of {code.rows.size} values", fix)


def padding_bits_are_zero(make: Make, every: list[Toys]) -> None:
    """The padding bits in the last byte of each row are zero."""
    for toys in every:
        encoder, bag = fitted(make, toys), toys(seed=1).bags[0]
        spec = encoder.spec(bag.width)
        if spec.kind != "bits":
            continue
        rows = encode(encoder, bag).rows
        padding = np.unpackbits(rows.astype(np.uint8), axis=1)[:, spec.width :]
        fix = "pack rows of exactly `width` bits, most significant bit first, as np.packbits does"
        want = f"zeros after bit {spec.width} of a row"
        require(not padding.any(), want, f"{int(padding.sum())} bits set in the padding of {len(rows)} rows", fix)


def patch_order_does_not_matter(make: Make, toys: Toys) -> None:
    """A bag with its patches in another order gives the same code: equal bits, floats within 1e-6."""
    encoder = fitted(make, toys)
    for number, bag in enumerate(toys(seed=1, count=4).bags):
        bag = replace(bag, sides=np.arange(1.0, len(bag) + 1) * 128)
        fix = "use sums and sets over patches; sum in float64 or in a fixed order, so no sign near zero flips"
        require_same_rows(
            encode(encoder, bag),
            encode(encoder, rows_of(bag, np.random.default_rng(number).permutation(len(bag)))),
            "the same code for the patches, with their places and sides, in another order",
            fix,
        )


def resolution_of_the_scan_does_not_matter(make: Make, toys: Toys) -> None:
    """The same features at the same places in µm give the same code, whatever the µm per level-0 pixel."""
    encoder = fitted(make, toys)
    for bag in toys(seed=1, count=4).bags:
        assert bag.sides is not None
        assert bag.mpp is not None
        fix = "use bag.centres_um, or multiply bag.xy and bag.sides by bag.mpp: pixels differ between 20x and 40x"
        require_same_rows(
            encode(encoder, bag),
            encode(encoder, replace(bag, xy=bag.xy * 2, sides=bag.sides * 2, mpp=bag.mpp / 2)),
            "the same code for a slide scanned at twice the resolution",
            fix,
        )


def unknown_geometry_is_no_crash(make: Make, toys: Toys) -> None:
    """A bag whose `sides` and `mpp` are unknown gives a code, or SlideseekError if the encoder needs them."""
    encoder, bag = fitted(make, toys), replace(toys(seed=1).bags[0], sides=None, mpp=None)
    with contextlib.suppress(SlideseekError):  # `bag.centres_um` raises it
        encode(encoder, bag)


def one_patch_is_enough(make: Make, toys: Toys) -> None:
    """A bag of one patch gives a code."""
    encoder, bag = fitted(make, toys), toys(seed=1).bags[0]
    code = encode(encoder, rows_of(bag, slice(1)))
    mismatch = code.mismatch(encoder.spec(bag.width))
    fix = "handle variances and differences over patches: one patch has none"
    require(not mismatch, f"a code of {encoder.spec(bag.width)} from one patch", mismatch, fix)


def empty_bag_is_refused(make: Make, toys: Toys) -> None:
    """A bag without patches raises EmptyBagError."""
    encoder, bag = fitted(make, toys), toys(seed=1).bags[0]
    fix = "begin encode() with: if len(bag) == 0: raise EmptyBagError(bag.slide_id)"
    require_error(partial(encoder.encode, rows_of(bag, slice(0))), (EmptyBagError,), "for a bag without patches", fix)


def bad_numbers_are_refused(make: Make, toys: Toys) -> None:
    """NaN or infinite features raise SlideseekError instead of giving a code."""
    encoder, bag = fitted(make, toys), toys(seed=1).bags[0]
    for value in (np.nan, np.inf, -np.inf):
        features = bag.features.copy()
        features[len(features) // 2, bag.width // 2] = value
        spoilt = replace(bag, features=features)
        fix = "check np.isfinite(bag.features).all() and name the slide in the error"
        what = f"for a bag with {value} in its features"
        require_error(partial(encoder.encode, spoilt), (SlideseekError,), what, fix)


def bag_is_left_alone(make: Make, toys: Toys) -> None:
    """`encode` does not write into the bag, and accepts a read-only one."""
    encoder, bag = fitted(make, toys), toys(seed=1).bags[0]
    copy = replace(bag, features=bag.features.copy(), xy=bag.xy.copy())
    from_copy = encode(encoder, copy)
    fix = "work on a copy: x = bag.features - mean, not x -= mean"
    passed = np.array_equal(copy.features, bag.features) and np.array_equal(copy.xy, bag.xy)
    demand(passed, "changed features or coordinates after encode()", fix)
    require_same_code(from_copy, encode(encoder, bag), "the same code for a read-only bag", "copy before writing")


def slide_id_only_names_the_code(make: Make, toys: Toys) -> None:
    """The code has the bag's slide id, and another id changes nothing else."""
    encoder = fitted(make, toys)
    bag = toys().bags[0]  # the encoder was fitted on it: it could have stored its id and label
    code = encode(encoder, replace(bag, slide_id="renamed"))
    fix = "use bag.slide_id in the code"
    require(code.slide_id == "renamed", "Code.slide_id to be the bag's, 'renamed'", repr(code.slide_id), fix)
    fix = "compute the code only from features, coordinates and site; an id can reveal the label"
    require_same_code(encode(encoder, bag), code, "the same rows when only the slide id differs", fix)


def encoding_leaves_no_trace(make: Make, toys: Toys) -> None:
    """Encoding A, then B, then A again gives the first code of A."""
    encoder = fitted(make, toys)
    a, b = toys(seed=1, count=2).bags
    first = encode(encoder, a)
    encode(encoder, b)
    fix = "do not change self or use random numbers in encode()"
    require_same_code(first, encode(encoder, a), "the same code for a bag after another one was encoded", fix)


def same_seed_same_codes(make: Make, toys: Toys) -> None:
    """Two fresh encoders with equal options, fitted on the same bags, give the same codes."""
    what = "two encoders with equal options, fitted on the same bags, to agree"
    fix = "create a generator from a seed option in fit(), and use no global random state"
    require_equal_encoders(fitted(make, toys), fitted(make, toys), toys, what, fix)


def featurizers_are_named(make: Make) -> None:
    """`featurizers` lists the names of the featurizers whose features the encoder understands."""
    names: Any = make().featurizers  # a plugin may return anything
    listed = not isinstance(names, str) and all(isinstance(name, str) and name.strip() for name in names)
    fix = 'return a tuple such as ("kimianet",); without NeedsFeaturizer, any features are accepted'
    require(listed and len(names) > 0, "a list of names of featurizers", repr(names), fix)


def contributions_add_up(make: Make, toys: Toys) -> None:
    """`contributions` splits the similarity to a code over the patches, in their order: the parts add up to it."""
    encoder: Any = fitted(make, toys)
    bags = toys(seed=1, count=6).bags
    for bag, other in zip(bags, bags[2:]):
        mine, theirs = encode(encoder, bag), encode(encoder, other)
        if mine.space != theirs.space or len(mine) + len(theirs) > 2:
            continue
        try:
            parts, order = encoder.contributions(bag, theirs), np.arange(len(bag))[::-1]
        except NotAttributableError:
            want = "contributions() to be refused only for a part that is not Attributable"
            require(_has_part_without(encoder, Attributable), want, "all parts are", "split the similarity")
            return
        fix = "return one float64 per patch, in the order of the patches"
        passed = isinstance(parts, np.ndarray) and parts.dtype == np.float64 and parts.shape == (len(bag),)
        require(passed, f"float64 ({len(bag)},), one part per patch", repr(parts)[:80], fix)
        turned = encoder.contributions(rows_of(bag, order), theirs)
        whole = _similarity(encoder.spec(bag.width), mine, theirs)
        fix = "split the cosine of the two codes, or the share of equal bits, as encode() computes it"
        passed = abs(parts.sum() - whole) <= 1e-4 and np.allclose(turned, parts[order], atol=1e-6)
        want = f"parts that add up to the similarity, {whole:.6f}, and follow the patches"
        require(passed, want, f"a sum of {parts.sum():.6f}, for the patches in another order {turned.sum():.6f}", fix)


def batch_equals_one_by_one(make: Make, toys: Toys) -> None:
    """`encode_many` returns exactly the codes of `encode`, in order, for batches of several sizes."""
    encoder: Any = fitted(make, toys)
    bags = toys(seed=1, count=9).bags
    for batch in (bags[:0], bags[:1], bags[3:5], bags[::-1]):
        codes = encoder.encode_many(batch)
        got = [code.slide_id for code in codes]
        fix = "return one code per bag, in the order of the bags"
        require(got == [bag.slide_id for bag in batch], f"a code for each of {len(batch)} bags", f"{got}", fix)
        for bag, code in zip(batch, codes):
            fix = "compute each bag as encode() does, to the last bit: padding and sums over a batch change it"
            require_same_code(encode(encoder, bag), code, f"the code of encode() in a batch of {len(batch)}", fix)


def _has_part_without(component: Any, protocol: type[Any]) -> bool:
    """Return whether a component is made of others, at any depth, and one of them lacks a capability."""
    parts = [part for _, part in nested_components(component)]
    return any(not implements(part, protocol) or _has_part_without(part, protocol) for part in parts)


def rows_of(bag: Bag, rows: Any) -> Bag:
    """Return some patches of a bag, or all in another order: features, places and sides alike."""
    sides = None if bag.sides is None else bag.sides[rows]
    return replace(bag, features=bag.features[rows], xy=bag.xy[rows], sides=sides)


def _similarity(spec: CodeSpec, a: Code, b: Code) -> float:
    """Return the share of equal bits, or the cosine; 0 if either is all zeros."""
    if spec.kind == "bits":
        return 1 - int(np.unpackbits(a.rows.astype(np.uint8) ^ b.rows.astype(np.uint8)).sum()) / spec.width
    x, y = a.rows[0].astype(np.float64), b.rows[0].astype(np.float64)
    return float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y) or 1.0))
