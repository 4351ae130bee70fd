"""The featurizer of imported features computes none itself, and says so."""

import numpy as np
import pytest

from slideseek.errors import SlideError
from slideseek_components.featurizers.imported import Imported


def test_it_knows_its_width_and_says_why_it_cannot_featurize():
    made = Imported("uni_v1", 1024)
    assert made.width == 1024
    with pytest.raises(SlideError, match="the features of set 'uni_v1' were imported"):
        made.featurize(np.zeros((1, 8, 8, 3), np.uint8))


@pytest.mark.parametrize(("options", "field"), [(("", 4), "set"), (("x", 0), "width"), (("x", 1 << 30), "width")])
def test_options_are_checked(options, field):
    with pytest.raises(ValueError, match=f"^{field}: "):
        Imported(*options)
