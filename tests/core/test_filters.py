"""Filters over manifest fields."""

import pytest

from slideseek.errors import UsageError
from slideseek.filters import parse_filter
from slideseek.types import SlideRecord

RECORD = SlideRecord("a", "a.svs", "p", "lung", "LUAD", "A2", fields={"age": "61", "stain": "H&E = old"})


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("site=lung", True),
        ("site = lung", True),
        ("site=colon", False),
        ("site!=colon", True),
        ("label in LUAD,LUSC", True),
        ("label in COAD, READ", False),
        ("age>=60", True),
        ("age<60", False),
        ("age>61", False),
        ("age<=61.0", True),
        ("stain=H&E = old", True),
        ("center<5", False),
        ("id=a", True),
    ],
)
def test_conditions(text, passes):
    assert parse_filter(text, ["age", "stain"])(RECORD) is passes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lung", "cannot read the filter"),
        ("sitee=lung", "did you mean 'site'?"),
        ("zzz=1", "fields: id, patient"),
        ("age>=old", "'old' is not a number"),
    ],
)
def test_wrong_conditions(text, message):
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        parse_filter(text, ["age"])
