"""Reading a results folder."""

import json

import numpy as np
import pytest

from slideseek.errors import SlideseekError
from slideseek_apps.bench.results import read_cells, read_results


def test_cells_carry_their_record_and_their_data(simulation):
    made = simulation()
    made.retrieval("mean", 0.5, sweep={"bits": 8}, seed=4)
    made.classification("mean", 0.5)
    made.training("deep", 1.0)
    by_kind = {cell.kind: cell for cell in read_cells(made.folder)}
    found = by_kind["retrieval"]
    assert (found.name, found.seed, found.sweep, found.bytes_per_slide) == ("mean", 4, {"bits": 8}, 625.0)
    assert (found.protocol.mode, found.protocol.target, found.dataset.patients) == ("vertical", "label", 48)
    assert len(found.hits()) == len(made.slides)
    assert by_kind["classification"].predictions()[0].label in ("colon", "lung", "skin")
    curves = by_kind["training"].training()
    assert curves["epoch"] == list(range(1, 61))
    assert np.isnan(curves["quantisation"]).all(), "an empty field is not a number"
    assert by_kind["training"].values()["values"].shape == (4000,)


def test_a_cell_half_written_is_not_seen(simulation):
    made = simulation()
    made.retrieval("mean", 0.5)
    half = made.folder / "cells" / ".other.tmp-1-0123abcd"
    half.mkdir()
    (half / "cell.json").write_text("{}")
    (made.folder / "cells" / "empty").mkdir()
    assert [cell.name for cell in read_cells(made.folder)] == ["mean"]


def test_the_order_is_that_of_the_configuration(simulation):
    made = simulation()
    for name in ("a", "b"):
        made.retrieval(name, 0.5, mode="horizontal")
        made.retrieval(name, 0.5)
    for bits in (1000, 200):
        made.retrieval(f"c {bits}", 0.5, engine="c", sweep={"bits": bits})
    (made.folder / "bench.toml").write_text(
        'name = "x"\n[[protocol]]\nname = "vertical"\n[[protocol]]\nname = "horizontal"\n'
        '[[engine]]\nname = "b"\n[[engine]]\nname = "c"\n[[engine]]\nname = "a"\n'
    )
    results = read_results(made.folder)
    assert results.title == "x"
    found = [(cell.protocol.name[0], cell.name) for cell in results.cells]
    assert found == [("v", "b"), ("v", "c 200"), ("v", "c 1000"), ("v", "a"), ("h", "b"), ("h", "a")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version 2, this slideseek reads 1"),
        ({"kind": "guess"}, "kind 'guess' is none of retrieval"),
        ({"seed": "one"}, "is not the record of a cell"),
    ],
)
def test_a_wrong_record_is_refused(simulation, change, message):
    made = simulation()
    made.retrieval("mean", 0.5)
    (path,) = made.folder.glob("cells/*/cell.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(SlideseekError, match=message):
        read_cells(made.folder)


def test_folders_without_results_are_refused(tmp_path):
    with pytest.raises(SlideseekError, match="is not a folder of benchmark results"):
        read_cells(tmp_path)
    (tmp_path / "cells").mkdir()
    with pytest.raises(SlideseekError, match="has no finished cells"):
        read_cells(tmp_path)


def test_a_wrong_number_in_a_log_is_refused_by_line(simulation):
    made = simulation()
    made.training("deep", 1.0)
    (cell,) = read_cells(made.folder)
    (cell.folder / "training.csv").write_text("epoch,gradient_l1\n1,2\n2,x\n")
    with pytest.raises(SlideseekError, match="line 3: gradient_l1 is 'x', not a number"):
        cell.training()


def test_of_cells_of_one_name_the_newest_counts(simulation, slideseek):
    made = simulation()
    made.retrieval("mean", 0.2)
    (old,) = (made.folder / "cells").iterdir()
    old.rename(old.with_name("zz-old"))
    made.retrieval("mean", 0.9, created="2026-02-01T00:00:00+00:00", guards_off=["duplicates"], not_encoded={"s1": "x"})
    results = read_results(made.folder)
    assert [cell.created[:7] for cell in results.cells] == ["2026-02"]
    assert results.superseded == 1
    report = slideseek("bench", "report", made.folder, "--format", "json").json
    assert report["facts"]["cells"] == "1, 1 older ones of the same names left out"
    (section,) = report["sections"]
    assert section["facts"]["guards switched off"] == "duplicates"
    assert any("mean could not encode 1 slide:" in note for note in section["tables"][0]["notes"])
