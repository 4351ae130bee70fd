"""`build --recompute`: a stage and all that depends on it are computed again, in every engine that shares them."""

import sqlite3

import pytest

from slideseek.archive.catalog import with_seals

STAGES = ("select", "featurize", "fit", "encode", "index")
CONFIG = """
[[engine]]
name       = "mean"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "mean" }
index      = { use = "cosine" }

[[engine]]
name       = "words"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "bovw", words = 4 }
index      = { use = "cosine" }
"""


@pytest.fixture
def built(tiny_archive, slideseek):
    (tiny_archive / "slideseek.toml").write_text(CONFIG)
    assert slideseek("build", "-a", tiny_archive).code == 0
    with sqlite3.connect(tiny_archive / "catalog.sqlite") as db:
        with_seals(db)
        db.execute("UPDATE stages SET updated = 'before'")
        db.execute("UPDATE models SET created = 'before'")
        db.execute("UPDATE indexes SET created = 'before'")
        db.execute("DELETE FROM code_changes")  # marking the records counted as a change of every code
    db.close()
    return tiny_archive


def computed(archive):
    """Return which stages have been computed since, over all engines, with the number of results."""
    with sqlite3.connect(archive / "catalog.sqlite") as db:
        rows = db.execute("SELECT stage, count(*) FROM stages WHERE updated <> 'before' GROUP BY 1").fetchall()
        models = db.execute("SELECT count(*) FROM models WHERE created <> 'before'").fetchone()[0]
        indexes = db.execute("SELECT count(*) FROM indexes WHERE created <> 'before'").fetchone()[0]
    db.close()
    return dict(rows) | ({"fit": models} if models else {}) | ({"index": indexes} if indexes else {})


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        ("select", {"select": 8, "featurize": 8, "fit": 1, "encode": 16, "index": 2}),
        ("featurize", {"featurize": 8, "fit": 1, "encode": 16, "index": 2}),
        ("fit", {"fit": 1, "encode": 16, "index": 2}),
        ("encode", {"encode": 16, "index": 2}),
        ("index", {"index": 2}),
    ],
)
def test_it_computes_a_stage_and_what_depends_on_it(built, slideseek, stage, expected):
    before = slideseek("search", "s0", "-a", built, "--engine", "words", "--json").json["hits"]
    done = slideseek("build", "-a", built, "--recompute", stage)
    assert done.code == 0, done.err
    assert computed(built) == expected
    assert slideseek("search", "s0", "-a", built, "--engine", "words", "--json").json["hits"] == before


def test_nothing_is_computed_again_without_it(built, slideseek):
    assert slideseek("build", "-a", built).code == 0
    assert computed(built) == {}


def test_one_engine_drops_what_another_made_from_the_same_features(built, slideseek):
    done = slideseek("build", "-a", built, "--engine", "mean", "--recompute", "featurize")
    assert done.code == 0, done.err
    done = slideseek("search", "s0", "-a", built, "--engine", "words")
    assert done.code == 1 and "run 'slideseek build'" in done.err, "its codes were of the former features"
    assert slideseek("build", "-a", built).code == 0
    assert slideseek("search", "s0", "-a", built, "--engine", "words").code == 0


def test_who_made_a_result_is_kept(built):
    with sqlite3.connect(built / "catalog.sqlite") as db:
        makers = {row[0] for row in db.execute("SELECT made_by FROM stages")}
    db.close()
    assert len(makers) == 1 and makers.pop().startswith("slideseek ")
