"""Folds and splits: who learns, who asks, and that nobody does both."""

import pytest

from slideseek.errors import SlideseekError, UsageError
from slideseek.types import SlideRecord
from slideseek_apps.bench.folds import groups, make_folds, taking_part
from slideseek_apps.bench.protocol import Protocol


def slides(count: int = 24) -> list[SlideRecord]:
    """Two slides a patient, three patients a centre, two labels."""
    return [SlideRecord(f"s{n}", "", f"p{n // 2}", "lung", f"label {n // 2 % 2}", f"c{n // 6}") for n in range(count)]


def patients(records, positions):
    return {records[i].patient for i in positions}


@pytest.mark.parametrize("folds", [2, 5, 0])
def test_every_slide_is_asked_once_and_no_patient_is_on_both_sides(folds):
    records = slides()
    made = make_folds(records, Protocol("p", folds=folds), seed=0, learns=True)
    assert len(made) == (folds or 12)
    assert sorted(i for fold in made for i in fold.test) == list(range(24))
    for fold in made:
        assert not patients(records, fold.train) & patients(records, fold.test)
        assert sorted({*fold.train, *fold.test}) == list(range(24))
        assert fold.among == tuple(range(24))


def test_classes_are_dealt_evenly():
    records = slides()
    for fold in make_folds(records, Protocol("p", folds=3), seed=4, learns=True):
        labels = [records[i].label for i in fold.test]
        assert labels.count("label 0") == labels.count("label 1") == 4


def test_the_seed_decides():
    protocol = Protocol("p", folds=3)
    one, same, other = (make_folds(slides(), protocol, seed, learns=True) for seed in (0, 0, 1))
    assert one == same
    assert one != other


def test_centres_are_left_out_whole():
    records = slides()
    protocol = Protocol("p", folds=2, leave_out="center")
    for fold in make_folds(records, protocol, seed=0, learns=True):
        assert not {records[i].center for i in fold.train} & {records[i].center for i in fold.test}


def test_a_patient_seen_in_two_centres_ties_them_together():
    records = [*slides(), SlideRecord("x", "", "p0", "lung", "label 0", "c3")]
    group = groups(records, Protocol("p", leave_out="center"))
    assert group[0] == group[-1] == group[23]
    assert len(set(group)) == 3
    with pytest.raises(SlideseekError, match="3 centres that share no patient cannot be dealt into 5 folds"):
        make_folds(records, Protocol("p", leave_out="center"), seed=0, learns=True)


def test_a_slide_without_a_centre_is_named():
    with pytest.raises(SlideseekError, match="1 slide\\(s\\) have none \\('x'\\)"):
        groups([*slides(), SlideRecord("x", "", "p")], Protocol("p", leave_out="center"))


def test_a_drawn_test_side_has_its_share_of_each_class():
    records = slides(40)
    (fold,) = make_folds(records, Protocol("p", fit="split", test=0.4), seed=0, learns=True)
    assert len(fold.test) == 16
    assert not patients(records, fold.train) & patients(records, fold.test)
    assert fold.among == fold.train
    assert sum(records[i].label == "label 0" for i in fold.test) == 8


def test_a_split_file(tmp_path):
    path = tmp_path / "split.csv"
    path.write_text("slide_id,split\n" + "".join(f"s{n},{'Train' if n < 8 else 'test'}\n" for n in range(12)))
    (fold,) = make_folds(slides(), Protocol("p", fit="split", split=path), seed=0, learns=False)
    assert fold.train == tuple(range(8))
    assert fold.test == (8, 9, 10, 11)
    path.write_text("slide_id,split\ns0,left\n")
    with pytest.raises(UsageError, match="slide 's0' is on side 'left'"):
        make_folds(slides(), Protocol("p", fit="split", split=path), seed=0, learns=False)
    path.write_text("name,side\ns0,train\n")
    with pytest.raises(UsageError, match="needs columns slide_id and split"):
        make_folds(slides(), Protocol("p", fit="split", split=path), seed=0, learns=False)


def test_a_split_without_sides_says_what_to_do():
    with pytest.raises(SlideseekError, match="0 training and 0 test slides"):
        make_folds(slides(), Protocol("p", fit="split"), seed=0, learns=True)


def test_slides_without_a_truth_take_no_part():
    records = [
        SlideRecord("a", "", site="lung"),
        SlideRecord("b", "", label="x"),
        SlideRecord("c", "", "", "lung", "x"),
    ]
    assert [r.id for r in taking_part(records, Protocol("v"))] == ["c"]
    assert [r.id for r in taking_part(records, Protocol("h", mode="horizontal"))] == ["a", "c"]
