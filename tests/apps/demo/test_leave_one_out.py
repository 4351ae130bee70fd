"""Protocols and the two rates computed from verdicts."""

import pytest

from slideseek.archive.archive import Archive
from slideseek.errors import SlideseekError
from slideseek.searching.searcher import Searcher
from slideseek_apps.demo.leave_one_out import Verdict, accuracy, leave_one_patient_out, majority_class_rate

VERDICTS = [
    Verdict("a", "colon", "normal", "normal"),
    Verdict("b", "colon", "normal", "tumour"),
    Verdict("c", "colon", "tumour", "normal"),
    Verdict("d", "lung", "tumour", "tumour"),
    Verdict("e", "lung", "tumour", ""),
]


def test_accuracy_counts_true_votes():
    assert accuracy(VERDICTS) == 2 / 5


def test_majority_class_rate_takes_the_best_constant_of_each_scope():
    assert majority_class_rate(VERDICTS) == (2 + 2) / 5
    one_scope = [Verdict(v.slide_id, "", v.truth, v.vote) for v in VERDICTS]
    assert majority_class_rate(one_scope) == 3 / 5


@pytest.fixture
def searcher(tiny_archive):
    with Archive(tiny_archive) as archive:
        yield Searcher.open(archive, "bars")


def test_vertical_asks_for_the_label_within_the_site(searcher):
    verdicts = leave_one_patient_out(searcher, "vertical", k=1)
    assert [v.slide_id for v in verdicts] == [f"s{n}" for n in range(8)]
    assert {(v.scope, v.truth) for v in verdicts} == {(s, t) for s in ("colon", "lung") for t in ("coarse", "fine")}
    assert accuracy(verdicts) == 1.0, "the nearest slide of another patient has the same texture"
    assert majority_class_rate(verdicts) == 0.5


def test_horizontal_asks_for_the_site_in_the_whole_archive(searcher):
    verdicts = leave_one_patient_out(searcher, "horizontal", k=3)
    assert {v.scope for v in verdicts} == {""}
    assert {v.truth for v in verdicts} == {"colon", "lung"}


def test_the_own_patient_has_no_vote(tiny_archive, tiny_slides, slideseek):
    manifest = tiny_slides / "manifest.csv"
    text = manifest.read_text()
    for number in range(8):
        text = text.replace(f",p{number},", ",same,")
    manifest.write_text(text)
    assert slideseek("add", tiny_slides, "--manifest", manifest, "-a", tiny_archive).code == 0
    with Archive(tiny_archive) as archive:
        searcher = Searcher.open(archive, "bars")
        with pytest.raises(SlideseekError, match="no slide can be a query"):
            leave_one_patient_out(searcher, "vertical", k=1)
