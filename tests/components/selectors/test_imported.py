"""The selector of imported patches selects nothing itself, and says so."""

from types import SimpleNamespace

import pytest

from slideseek.errors import SlideError
from slideseek.interfaces import ImportedPatches, implements
from slideseek_components.selectors.imported import Imported


def test_it_says_why_it_cannot_select():
    with pytest.raises(SlideError) as caught:
        Imported("uni_v1").select(SimpleNamespace(id="y"))
    assert caught.value.cause == "the features of set 'uni_v1' were imported; slide 'y' has none"
    assert caught.value.fix == "import them with 'slideseek import'"


def test_a_set_has_a_name():
    with pytest.raises(ValueError, match="set: must be the name"):
        Imported(" ")


def test_it_names_the_imported_set():
    stand_in = Imported("uni_v1")
    assert implements(stand_in, ImportedPatches)
    assert stand_in.imported_set == "uni_v1"
