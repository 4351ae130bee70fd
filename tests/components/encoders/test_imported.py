"""The vector of a whole slide is its code."""

import numpy as np
import pytest

from slideseek.errors import EmptyBagError, SlideseekError
from slideseek.types import Bag, CodeSpec
from slideseek_components.encoders.imported import Imported
from slideseek_components.encoders.joined import Joined


def bag(rows, slide="s"):
    features = np.asarray(rows, dtype=np.float32)
    return Bag(slide, features, np.zeros((len(features), 2), np.int32))


def test_the_vector_is_unchanged():
    vector = np.random.default_rng(0).normal(size=(1, 6)).astype(np.float32)
    assert Imported().spec(6) == CodeSpec("float", 6)
    assert np.array_equal(Imported().encode(bag(vector)).rows, vector)
    assert np.array_equal(Imported(2, 3).encode(bag(vector)).rows, vector[:, 2:5])
    assert np.array_equal(Imported(start=4).encode(bag(vector)).rows, vector[:, 4:])


def test_patches_are_refused():
    with pytest.raises(SlideseekError, match="features of 2 patches, not one vector") as caught:
        Imported().encode(bag(np.ones((2, 4))))
    assert "'mean'" in caught.value.fix
    with pytest.raises(EmptyBagError):
        Imported().encode(bag(np.ones((0, 4))))
    with pytest.raises(SlideseekError, match="NaN or infinite"):
        Imported().encode(bag([[1.0, np.nan]]))


@pytest.mark.parametrize("options", [{"start": 4}, {"start": 2, "length": 3}, {"length": 5}])
def test_a_part_outside_of_the_vector(options):
    with pytest.raises(ValueError, match="must lie in a vector of 4 values"):
        Imported(**options).spec(4)


def test_negative_options():
    with pytest.raises(ValueError, match="must be 0 or more"):
        Imported(start=-1)


def test_parts_of_two_encoders_get_the_same_say():
    """The second part has a hundred times the length of the first; joined, both decide equally."""
    rng = np.random.default_rng(1)
    small, large = rng.normal(size=(40, 3)), 100 * rng.normal(size=(40, 5))
    bags = [bag(np.concatenate(pair)[None], f"s{i}") for i, pair in enumerate(zip(small, large))]
    joined = Joined((Imported(length=3), Imported(start=3)))
    joined.fit(bags, [""] * 40, [f"p{i}" for i in range(40)])
    codes = np.concatenate([joined.encode(one).rows for one in bags])
    lengths = [np.sqrt((codes[:, part] ** 2).sum(1).mean()) for part in (slice(0, 3), slice(3, 8))]
    assert lengths[0] == pytest.approx(lengths[1], rel=1e-5)


def test_the_whole_similarity_belongs_to_the_one_row():
    one, other = (bag(row[None], f"s{i}") for i, row in enumerate(np.random.default_rng(2).normal(size=(2, 6))))
    encoder = Imported(1, 4)
    a, b = (encoder.encode(each).rows[0].astype(np.float64) for each in (one, other))
    cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    assert encoder.contributions(one, encoder.encode(other)).tolist() == pytest.approx([cosine])
