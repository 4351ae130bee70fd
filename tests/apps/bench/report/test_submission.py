"""Submissions: ranked lists and cards that a leaderboard accepts, and the published form of a results folder."""

import csv
import hashlib
import json

import pytest

from slideseek.errors import SlideseekError
from slideseek_apps.bench.encoder_cards import cards_of
from slideseek_apps.bench.records import FORMS, SCHEMAS, schema
from slideseek_apps.bench.report.leaderboard import ALL_SITES, make_standings
from slideseek_apps.bench.report.settings import ReportSettings
from slideseek_apps.bench.results import read_cells, read_results

FAST = ReportSettings(resamples=200, permutations=99)
CARD = """
[[card]]
engine = "{engine}"
training_cohorts = ["{cohort}"]
weights = "weights.bin"
licence = "Apache-2.0"
seen_this_cohort = "{seen}"
"""


@pytest.fixture
def cards(tmp_path):
    """Write the cards of engines: `cards("mean", cohort="GTEx", seen="no")`."""

    def write(*engines, cohort="GTEx", seen="no"):
        (tmp_path / "weights.bin").write_bytes(b"weights")
        path = tmp_path / "cards.toml"
        path.write_text("".join(CARD.format(engine=engine, cohort=cohort, seen=seen) for engine in engines))
        return path

    return write


def test_a_submission_is_accepted_by_the_leaderboard(simulation, tmp_path, slideseek, cards):
    made = simulation("ours")
    for name, skill in (("weak", 0.2), ("strong", 0.95)):
        made.retrieval(name, skill)
    made.retrieval("weak", 0.2, control=True)
    done = slideseek(
        "bench", "submit", made.folder, "-o", tmp_path / "sent", "--cards", cards("weak", "strong"), "--json"
    )
    assert done.code == 0, done.err
    assert done.json["cells"] == 2 and sorted(done.json["engines"]) == ["strong", "weak"]
    assert cards_of(tmp_path / "sent")["weak"].weights_sha256 == hashlib.sha256(b"weights").hexdigest()
    standings = make_standings([read_results(tmp_path / "sent")], FAST)
    overall = [s for s in standings if s.site == ALL_SITES]
    assert [(s.engine, s.top, s.card and s.card.seen_this_cohort) for s in overall] == [
        ("strong", True, "no"),
        ("weak", False, "no"),
    ]
    assert overall[0].first.value == 100 and overall[1].first.value == 0
    page = tmp_path / "page.html"
    assert slideseek("bench", "leaderboard", tmp_path / "sent", "-o", page).code == 0
    text = page.read_text()
    assert "Apache-2.0" in text and "GTEx" in text and "top group" in text
    report = slideseek("bench", "report", tmp_path / "sent", "--format", "markdown")
    assert "Stability of the order" in report.out and "top group" in report.out


def test_lists_of_another_system(simulation, tmp_path, slideseek, cards):
    made = simulation("ours")
    made.retrieval("mean", 0.6)
    (cell,) = read_cells(made.folder)
    hits = tmp_path / "theirs.csv"
    hits.write_text((cell.folder / "hits.csv").read_text())
    run = ("bench", "submit", hits, "--like", made.folder, "--name", "theirs", "--cards", cards("theirs"))
    done = slideseek(*run, "-o", tmp_path / "sent", "--json")
    assert done.code == 0, done.err
    assert done.json["queries"] == len(cell.hits())
    standings = make_standings([read_results(made.folder), read_results(tmp_path / "sent")], FAST)
    both = [s for s in standings if s.site == ALL_SITES]
    assert {s.engine: s.first.value for s in both} == {"mean": 50, "theirs": 50}, "the same lists tie"
    assert {s.macro_f1.value for s in both} == {both[0].macro_f1.value} and all(s.top for s in both)
    with hits.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    first = rows[0]["query_id"]

    def say(changed):
        with hits.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0].keys())
            writer.writeheader()
            writer.writerows(changed)
        return slideseek(*run, "-o", tmp_path / "other").err

    assert f"queries are missing, such as '{first}'" in say([row for row in rows if row["query_id"] != first])
    strange = [row | {"query_id": "x"} if row["query_id"] == first else row for row in rows]
    assert "query 'x' is not one of the benchmark" in say(strange)
    assert not (tmp_path / "other").exists()


def test_cards_are_checked(simulation, tmp_path, slideseek, cards):
    made = simulation("ours")
    made.retrieval("mean", 0.6)
    run = ("bench", "submit", made.folder, "-o", tmp_path / "sent", "--cards")
    missing = slideseek(*run, cards("other"))
    assert missing.code == 2 and "no card for engine 'mean'" in missing.err and 'engine = "mean"' in missing.err
    seen = slideseek(*run, cards("mean", cohort="simulated"))
    assert seen.code == 2 and "says that it has not seen 'simulated'" in seen.err
    assert slideseek(*run, cards("mean", seen="maybe")).err.startswith("error") and not (tmp_path / "sent").exists()
    said = slideseek(*run, cards("mean", cohort="simulated", seen="yes"))
    assert said.code == 0, said.err
    again = slideseek(*run, cards("mean"))
    assert again.code == 2 and "already exists" in again.err


def test_published_schemas_are_those_that_are_checked(simulation):
    for name in FORMS:
        assert json.loads((SCHEMAS / f"{name}.schema.json").read_text()) == schema(name)
    validator = pytest.importorskip("jsonschema_rs", reason="jsonschema-rs is not installed")
    made = simulation("ours")
    made.retrieval("mean", 0.6)
    (cell,) = read_cells(made.folder)
    path = cell.folder / "cell.json"
    record = json.loads(path.read_text())
    assert validator.is_valid(schema("cell"), record)
    wrong = record | {"dataset": {"slides": "many"}}
    assert not validator.is_valid(schema("cell"), wrong)
    path.write_text(json.dumps(wrong))
    with pytest.raises(SlideseekError, match=r"is not the record of a cell \(dataset.name: Field required\)"):
        read_cells(made.folder)
