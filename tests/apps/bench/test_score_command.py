"""`slideseek bench score` on three small files: every number it prints is computed by hand here."""

from fractions import Fraction
from math import log2

import pytest

F = Fraction
L = 1 / log2(3)
"""Discount of rank 2; those of ranks 1 and 3 are 1 and 1/2."""

F1 = "accuracy", "macro F1", "slide-weighted F1"
ALL = (*F1, "macro precision", "slide-weighted precision", "macro recall", "slide-weighted recall")


def votes(k, tie, *values, queries, classes):
    """The nine numbers of one tie rule."""
    found = {(f"majority-{k} {name}", f"tie {tie}"): value for name, value in zip(ALL, values, strict=True)}
    return found | averages(f"mMV@{k}", f"tie {tie}", queries, classes)


def averages(measure, convention, queries, classes):
    return {
        (measure, f"{convention}, mean over queries"): queries,
        (measure, f"{convention}, mean over classes"): classes,
    }


TIES = """query_id,query_label,rank,hit_id,hit_label
a1,A,1,hA1,A
a1,A,2,hB1,B
a1,A,3,hC1,C
a2,A,1,hB1,B
a2,A,2,hA1,A
a2,A,3,hA2,A
b1,B,1,hA1,A
b1,B,2,hB1,B
b1,B,3,hB2,B
c1,C,1,hA1,A
c1,C,2,hB1,B
c1,C,3,hC1,C
"""
# Votes: a1 is a tie of A, B, C (nearest A); a2 A; b1 B; c1 a tie (nearest A).
# nearest: A has 2 of 3 votes true and all of its 2 slides; B is perfect; C gets nothing.
# strict: only a2 and b1 are answered. Relevant ranks: a1 {1}, a2 {2, 3}, b1 {2, 3}, c1 {3}.
X = (L + 1 / 2) / (1 + L)  # nDCG of ranks {2, 3} when two relevant hits are ideal
I3 = 1 + L + 1 / 2
TIES_EXPECTED = {
    **votes(
        3, "nearest", F(3, 4), F(3, 5), F(13, 20), F(5, 9), F(7, 12), F(2, 3), F(3, 4), queries=F(3, 4), classes=F(2, 3)
    ),
    **votes(3, "correct", 1, 1, 1, 1, 1, 1, 1, queries=1, classes=1),
    **votes(
        3, "strict", F(1, 2), F(5, 9), F(7, 12), F(2, 3), F(3, 4), F(1, 2), F(1, 2), queries=F(1, 2), classes=F(1, 2)
    ),
    **averages("P@3", "divisor k", F(1, 2), F(1, 2)),
    **averages("P@3", "divisor found", F(1, 2), F(1, 2)),
    # AP: a1 1; a2 and b1 (1/2 + 2/3) / 2 = 7/12; c1 1/3
    **averages("mAP@3", "divisor hits", F(5, 8), (F(19, 24) + F(7, 12) + F(1, 3)) / 3),
    # AP: 1/3, 7/18, 7/18, 1/9
    **averages("mAP@3", "divisor k", F(11, 36), (F(13, 36) + F(7, 18) + F(1, 9)) / 3),
    **averages("mAP@3", "divisor min(k, relevant)", None, None),
    **averages("nDCG@3", "ideal hits", (1 + X + X + 1 / 2) / 4, ((1 + X) / 2 + X + 1 / 2) / 3),
    **averages("nDCG@3", "ideal k", (1 + 2 * (L + 0.5) + 0.5) / I3 / 4, ((1 + L + 0.5) / 2 + (L + 0.5) + 0.5) / I3 / 3),
    **averages("nDCG@3", "ideal min(k, relevant)", None, None),
    ("same-centre share@3", "mean over queries"): None,
}

SHORT = """query_id,query_label,rank,hit_id,hit_label,distance
q1,A,1,hA1,A,0.1
q1,A,2,hB1,B,0.1
q2,B,,,,
q3,B,1,hB1,B,1
q3,B,2,hB2,B,2
q3,B,3,hA1,A,3
q3,B,4,hA2,A,3
q4,A,1,hU,,4
q4,A,2,hB1,B,5
"""
# Votes of the 5 nearest, though no query has 5: q1 a tie (nearest A), q2 nothing, q3 a tie 2:2 (nearest B), q4 B.
# nearest and correct alike: A has 1 of 1 votes true and 1 of its 2 slides; B 1 of 2 and 1 of 2.
# strict: only q4 is answered, wrongly. Relevant ranks: q1 {1}, q2 {}, q3 {1, 2}, q4 {}.
I5 = 1 + L + 1 / 2 + 1 / log2(5) + 1 / log2(6)
HALF = F(1, 2)
SHORT_EXPECTED = {
    **votes(5, "nearest", HALF, F(7, 12), F(7, 12), F(3, 4), F(3, 4), HALF, HALF, queries=HALF, classes=HALF),
    **votes(5, "correct", HALF, F(7, 12), F(7, 12), F(3, 4), F(3, 4), HALF, HALF, queries=HALF, classes=HALF),
    **votes(5, "strict", 0, 0, 0, 0, 0, 0, 0, queries=0, classes=0),
    **averages("P@5", "divisor k", F(3, 20), F(3, 20)),
    **averages("P@5", "divisor found", F(1, 4), F(1, 4)),
    **averages("mAP@5", "divisor hits", HALF, HALF),
    **averages("mAP@5", "divisor k", F(3, 20), F(3, 20)),
    **averages("mAP@5", "divisor min(k, relevant)", None, None),
    **averages("nDCG@5", "ideal hits", HALF, HALF),
    **averages("nDCG@5", "ideal k", (1 + 1 + L) / I5 / 4, (1 / 2 + (1 + L) / 2) / I5 / 2),
    **averages("nDCG@5", "ideal min(k, relevant)", None, None),
    ("same-centre share@5", "mean over queries"): None,
}

SITES = """query_id,query_label,query_patient,query_center,query_site,\
rank,hit_id,hit_label,hit_patient,hit_center,distance,relevant
s1,normal,p1,c1,colon,1,s2,normal,p2,c1,1,1
s1,normal,p1,c1,colon,2,s3,tumour,p3,c2,2,1
s2,normal,p2,c1,colon,1,s3,tumour,p3,c2,1,1
s2,normal,p2,c1,colon,2,s1,normal,p1,c1,2,1
s3,tumour,p3,c2,colon,1,s4,tumour,p4,,1,1
s3,tumour,p3,c2,colon,2,s1,normal,p1,c1,2,1
s4,tumour,p4,,colon,1,s1,normal,p1,c1,1,1
s4,tumour,p4,,colon,2,s2,normal,p2,c1,2,1
s5,normal,p5,c1,lung,1,s6,normal,p6,c2,1,1
s6,normal,p6,c2,lung,1,s5,normal,p5,c1,1,1
"""
# Within sites. Votes of the 2 nearest: s1, s2, s3 are ties (nearest normal, tumour, tumour); s4 normal; s5, s6 normal.
# Relevant ranks: s1 {1}, s2 {2}, s3 {1}, s4 {}, s5 {1}, s6 {1}. Three classes of two slides each, so both means agree.
# Centres: s1 1/2, s2 1/2, s3 0 of the one known, s4 unknown, s5 0, s6 0.
T = F(2, 3)
C = F(5, 6)
G = (4 + L) / 6
SITES_EXPECTED = {
    **votes(2, "nearest", T, T, T, T, T, T, T, queries=T, classes=T),
    **votes(2, "correct", C, F(37, 45), F(37, 45), F(8, 9), F(8, 9), C, C, queries=C, classes=C),
    **votes(2, "strict", *[F(1, 3)] * 7, queries=F(1, 3), classes=F(1, 3)),
    **averages("P@2", "divisor k", F(5, 12), F(5, 12)),
    **averages("P@2", "divisor found", F(7, 12), F(7, 12)),
    **averages("mAP@2", "divisor hits", F(3, 4), F(3, 4)),
    **averages("mAP@2", "divisor k", F(3, 8), F(3, 8)),
    **averages("mAP@2", "divisor min(k, relevant)", F(3, 4), F(3, 4)),
    **averages("nDCG@2", "ideal hits", G, G),
    **averages("nDCG@2", "ideal k", G / (1 + L), G / (1 + L)),
    **averages("nDCG@2", "ideal min(k, relevant)", G, G),
    ("same-centre share@2", "mean over queries"): F(1, 5),
}

FILES = {
    "ties": (TIES, 3, (), TIES_EXPECTED),
    "short": (SHORT, 5, (), SHORT_EXPECTED),
    "sites": (SITES, 2, ("--by-site",), SITES_EXPECTED),
}


@pytest.mark.parametrize("name", FILES)
def test_every_number_is_the_one_computed_by_hand(name, tmp_path, slideseek):
    text, k, options, expected = FILES[name]
    path = tmp_path / "hits.csv"
    path.write_text(text)
    done = slideseek("bench", "score", path, "--k", k, "--json", *options)
    assert done.code == 0, done.err
    scores = {(s["measure"], s["convention"]): s["value"] for s in done.json["scores"]}
    assert scores.keys() == expected.keys()
    for key, value in expected.items():
        if value is None:
            assert scores[key] is None, key
        else:
            assert scores[key] == pytest.approx(float(value), rel=0, abs=1e-12), key


def test_the_classes_of_the_first_file(tmp_path, slideseek):
    path = tmp_path / "hits.csv"
    path.write_text(TIES)
    rows = slideseek("bench", "score", path, "--k", "3", "--json").json["by_class"]
    nearest = [(r["label"], r["slides"], r["precision"], r["recall"], r["f1"]) for r in rows if r["tie"] == "nearest"]
    assert nearest == [("A", 2, 2 / 3, 1, 4 / 5), ("B", 1, 1, 1, 1), ("C", 1, 0, 0, 0)]


def test_the_table_names_each_convention_and_the_notes_what_is_missing(tmp_path, slideseek):
    path = tmp_path / "hits.csv"
    path.write_text(SHORT)
    done = slideseek("bench", "score", path)
    assert done.code == 0
    for words in (
        "majority-3 macro F1",
        "tie strict",
        "divisor min(k, relevant), mean over classes",
        "column `relevant`",
    ):
        assert words in done.out
    assert "1 of 4 queries found nothing" in done.err
    assert "3 of 4 queries have fewer than 5 hits" in done.err


def test_queries_that_find_their_own_patient_are_reported(tmp_path, slideseek):
    path = tmp_path / "hits.csv"
    path.write_text(SITES.replace("p2", "p1"))
    notes = slideseek("bench", "score", path, "--json").json["notes"]
    assert any(note.startswith("2 of 6 queries find slides of their own patient") for note in notes)


def test_sites_must_be_known_to_count_by_them(tmp_path, slideseek):
    path = tmp_path / "hits.csv"
    path.write_text(TIES)
    done = slideseek("bench", "score", path, "--by-site")
    assert done.code == 2
    assert "not every query has a site" in done.err
