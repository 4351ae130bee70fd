"""Filters over manifest fields."""

import pytest

from slideseek.errors import UsageError
from slideseek.searching.filters import parse_filter
from slideseek.types import SlideRecord

RECORD = SlideRecord("a", "a.svs", "p", "lung", "LUAD", "A2", mpp=0.25, fields={"age": "61", "stain": "H&E = old"})


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
        ("label not in LUAD,LUSC", False),
        ("label  not  in COAD", True),
        ("site='lung'", True),
        ('site="lung"', True),
        ('site != "lung"', False),
        ('label in "LUAD", COAD', True),
        ("stain in 'a, b', H&E = old", True),
        ("stain in 'a, H&E = old'", False),
        ("site=", False),
        ("label in ,", False),
        ("mpp=0.25", True),
        ("mpp<0.3", True),
        ("mpp>0.3", False),
    ],
)
def test_conditions(text, passes):
    assert parse_filter(text, ["age", "stain"])(RECORD) is passes


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("diagnosis=LUAD", True),
        ("subtype=LUSC", False),
        ("primary_site in lung,colon", True),
        ("Primary Site=lung", True),
        ("case_id=p", True),
        ("patient_id!=p", False),
        ("slide_id=a", True),
        ("centre=A2", True),
        ("tss=A3", False),
    ],
)
def test_a_named_field_goes_by_the_headings_of_a_manifest(text, passes):
    assert parse_filter(text, ["age"])(RECORD) is passes


def test_a_free_field_of_exactly_that_name_wins():
    record = SlideRecord("a", "a.svs", label="LUAD", site="lung", fields={"diagnosis": "tumour", "site": "left"})
    assert parse_filter("diagnosis=tumour", ["diagnosis", "site"])(record)
    assert parse_filter("site=left", ["diagnosis", "site"])(record)
    assert parse_filter("subtype=LUAD", ["diagnosis", "site"])(record)
    assert not parse_filter("diagnosis=tumour", ["site"])(record)


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("Tumor Stage=IV", True),
        ("Tumor Stage in I,II", False),
        (" Tumor Stage  !=  III ", True),
        ("PD-L1 >= 1%=yes", True),
        ("margin in mm>2", True),
        ("margin in mm in 3,4", True),
    ],
)
def test_field_names_with_spaces_and_signs(text, passes):
    record = SlideRecord("a", "a.svs", fields={"Tumor Stage": "IV", "PD-L1 >= 1%": "yes", "margin in mm": "3"})
    assert parse_filter(text, list(record.fields))(record) is passes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lung", "cannot read the filter"),
        ("=lung", "cannot read the filter"),
        ("sitee=lung", "did you mean 'site'?"),
        ("diagnossis=LUAD", "did you mean 'diagnosis'?"),
        ("zzz=1", "fields: id, patient"),
        ("age>=old", "'old' is not a number"),
        ("age>=nan", "'nan' is not a number"),
        ("age<inf", "'inf' is not a number"),
        ("mp<1", "did you mean 'mpp'?"),
        ('label="ductal carcinoma', "is not closed"),
        ('label != "', "is not closed"),
        ('label in a,"b, c', "is not closed"),
    ],
)
def test_wrong_conditions(text, message):
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        parse_filter(text, ["age"])


def test_apostrophes_are_not_quotes():
    record = SlideRecord("a", "a.svs", fields={"disease": "Crohn's"})
    assert parse_filter("disease in Barrett's, Crohn's", ["disease"])(record)
    assert parse_filter("disease=Crohn's", ["disease"])(record)


def test_an_unknown_resolution_is_empty_and_no_number():
    record = SlideRecord("a", "a.svs")
    assert parse_filter("mpp=", [])(record)
    assert not parse_filter("mpp>0", [])(record) and not parse_filter("mpp<9", [])(record)
