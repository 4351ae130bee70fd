"""`slideseek bench run`: the grid, what is kept, and that only what is missing runs."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

from slideseek_apps.bench.ranked_lists import read_hits
from slideseek_apps.bench.report.assemble import make_report
from slideseek_apps.bench.report.formats import render
from slideseek_apps.bench.report.settings import ReportSettings
from slideseek_apps.bench.results import read_cells, read_results

CONFIG = """
seeds = [0, 1]

[[protocol]]
name = "vertical"
folds = 2

[[engine]]
name = "mean"
encoder = "mean"

[[engine]]
name = "words"
encoder = { use = "bovw", words = [2, 3] }
"""
DEEP = (
    '{ use = "deep-sbfv", preset = "best", hidden = [6], latent = 2, epochs = 4, device = "cpu", bits = [8, 16, 24] }'
)


@pytest.fixture
def run(tmp_path, toy_bags_file, slideseek):
    def call(text: str, *arguments: object, code: int = 0, data: Path = toy_bags_file, out: str = "out"):
        (tmp_path / "bench.toml").write_text(text)
        where = ("--data", data, "-o", tmp_path / out, "--json")
        done = slideseek("bench", "run", tmp_path / "bench.toml", *where, *arguments)
        assert done.code == code, done.err
        return done.json if code in (0, 3) else done

    return call


def cells(folder: Path):
    return {(cell.name, cell.protocol.name, cell.seed): cell for cell in read_cells(folder)}


class TestGrid:
    def test_variants_protocols_and_seeds(self, run, tmp_path):
        said = run(CONFIG)
        assert [cell["outcome"] for cell in said["cells"]] == ["ok"] * 6
        found = cells(tmp_path / "out")
        assert {(name, seed) for name, _, seed in found} == {
            (name, seed) for name in ("mean", "words words=2", "words words=3") for seed in (0, 1)
        }
        record = json.loads((found["words words=3", "vertical", 1].folder / "cell.json").read_text())
        assert record["sweep"] == {"words": 3}
        assert (record["options"]["encoder"]["words"], record["options"]["encoder"]["seed"]) == (3, 1)
        assert record["options"]["index"]["use"] == "cosine"
        assert record["dataset"] == said["dataset"]
        assert record["protocol"]["fit"] == "folds"
        assert record["versions"]["encoder bovw"].startswith("slideseek ")
        assert record["bytes_per_slide"] > 0
        assert record["peak_memory_mb"] > 1
        assert record["times"].keys() == {"fit_s", "encode_ms_per_slide", "search_ms_median"}

    def test_an_encoder_that_learns_nothing_needs_no_folds(self, run, tmp_path):
        run(CONFIG)
        found = cells(tmp_path / "out")
        assert found["mean", "vertical", 0].protocol.fit == "none"
        assert found["mean", "vertical", 0].hits() == found["mean", "vertical", 1].hits()
        records = [
            json.loads((found[n, "vertical", 1].folder / "cell.json").read_text()) for n in ("mean", "words words=2")
        ]
        assert [record["measured_with_seed"] for record in records] == [0, 1]

    @pytest.mark.slow
    def test_only_what_is_missing_runs(self, run, tmp_path):
        run(CONFIG)
        before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("hits.csv")}
        again = run(CONFIG)
        assert {cell["outcome"] for cell in again["cells"]} == {"done before"}
        more = run(CONFIG.replace("[2, 3]", "[2, 4]"))
        assert [cell["name"] for cell in more["cells"] if cell["outcome"] == "ok"] == [
            "words words=4, vertical, seed 0",
            "words words=4, vertical, seed 1",
        ]
        assert more["stale"] == 2
        assert {p: t for p, t in before.items() if p.stat().st_mtime_ns == t} == before

    @pytest.mark.slow
    def test_other_labels_are_another_benchmark(self, run, toy_bags_file):
        run(CONFIG)
        arrays = dict(np.load(toy_bags_file))
        arrays["label"][:2] = "cancer"
        np.savez(toy_bags_file, **arrays)
        assert {cell["outcome"] for cell in run(CONFIG)["cells"]} == {"ok"}

    def test_only_one_engine(self, run):
        assert len(run(CONFIG, "--only", "words words=2")["cells"]) == 2
        assert "did you mean 'words'" in run(CONFIG, "--only", "word", code=2).err

    def test_an_encoder_that_learns_wants_to_be_fitted(self, run):
        done = run(CONFIG.replace("folds = 2", 'fit = "none"'), code=2)
        assert "engine 'words' learns" in done.err

    def test_a_cell_that_fails_is_told_and_the_others_run(self, run):
        said = run(CONFIG.replace("[2, 3]", "[2, 4000]"), code=3)
        outcomes = [cell["outcome"] for cell in said["cells"]]
        assert outcomes == ["ok"] * 4 + ["failed"] * 2
        assert "4000" in said["cells"][-1]["cause"]

    def test_the_config_as_run_runs_again(self, run, tmp_path, slideseek):
        run(CONFIG, "--set", "words=[3]", "--set", "seeds=[1]")
        done = slideseek("bench", "run", tmp_path / "out" / "bench.toml", "-o", tmp_path / "out", "--json")
        assert {cell["outcome"] for cell in done.json["cells"]} == {"done before"}
        assert len(done.json["cells"]) == 2

    def test_the_config_as_run_reads_back(self, run, tmp_path, toy_bags_file):
        odd = 'title = "quotes \\" and \\\\ and ü"\n'
        encoder = '{ use = "deep-fv", preset = "best", hidden = [[4], [3]], epochs = 1 }'
        changes = ("--set", "learning_rate=1e-05", "--set", "protocol.folds=2", "--only", "e.1 é hidden=3")
        run(f'{odd}[[engine]]\nname = "e.1 é"\nencoder = {encoder}\n', *changes)
        kept = tomllib.loads((tmp_path / "out" / "bench.toml").read_text(encoding="utf-8"))
        assert kept["title"] == 'quotes " and \\ and ü'
        assert kept["dataset"] == {"kind": "bags", "path": str(toy_bags_file)}
        (engine,) = kept["engine"]
        assert engine["name"] == "e.1 é"
        assert (engine["encoder"]["hidden"], engine["encoder"]["learning_rate"]) == ([[4], [3]], 1e-05)


class TestProtocols:
    def hits(self, run, tmp_path, protocol: str, data=None):
        text = f'[[protocol]]\nname = "p"\n{protocol}\n[[engine]]\nname = "mean"\nencoder = "mean"\n'
        run(text, **({"data": data} if data else {}))
        return next(iter(cells(tmp_path / "out").values())).hits()

    def test_vertical_stays_in_the_site_and_leaves_the_patient_out(self, run, tmp_path):
        queries = self.hits(run, tmp_path, 'mode = "vertical"\nk = 30')
        assert [query.query_id for query in queries] == [f"s{n:02d}" for n in range(24)]
        for query in queries:
            assert {hit.slide_id for hit in query.hits} == {
                other.query_id for other in queries if other.site == query.site and other.patient != query.patient
            }
            assert query.relevant == sum(hit.label == query.label for hit in query.hits)
            assert {hit.label for hit in query.hits} == {"benign", "cancer"}

    def test_horizontal_looks_everywhere_for_the_site(self, run, tmp_path):
        queries = self.hits(run, tmp_path, 'mode = "horizontal"\nk = 30')
        assert all(len(query.hits) == 22 and query.label == query.site for query in queries)

    def test_leaving_the_centre_out(self, run, tmp_path):
        queries = self.hits(run, tmp_path, 'mode = "horizontal"\nleave_out = "center"\nk = 30')
        assert all(hit.center != query.center for query in queries for hit in query.hits)
        assert all(len(query.hits) == 18 for query in queries)

    def test_a_split_asks_with_the_test_side_among_the_training_side(self, run, tmp_path, write_toys):
        data = write_toys(tmp_path / "split.npz", split=True)
        queries = self.hits(run, tmp_path, 'fit = "split"\nk = 30', data)
        assert {query.patient for query in queries} == {"p00", "p03", "p06", "p09"}
        assert not {hit.patient for query in queries for hit in query.hits} & {"p00", "p03", "p06", "p09"}

    def test_the_papers_way_draws_a_test_side_and_looks_within_it(self, run, tmp_path):
        queries = self.hits(run, tmp_path, 'fit = "split"\ntest = 0.5\ncandidates = "test"\nk = 30')
        asked = {query.patient for query in queries}
        assert len(asked) == 6
        assert {hit.patient for query in queries for hit in query.hits} <= asked

    def test_a_protocol_with_nothing_to_look_for_is_a_note(self, run, tmp_path, toy_bags_file):
        arrays = dict(np.load(toy_bags_file))
        arrays["site"][:] = "lung"
        np.savez(toy_bags_file, **arrays)
        protocols = "".join(f'[[protocol]]\nname = "{m}"\nmode = "{m}"\n' for m in ("vertical", "horizontal"))
        said = run(protocols + '[[engine]]\nname = "mean"\nencoder = "mean"\n')
        assert len(said["cells"]) == 1
        assert any("'horizontal' is left out: all slides are 'lung'" in note for note in said["notes"])

    def test_a_conditioned_encoder_cannot_be_asked_for_the_site(self, run):
        text = '[[protocol]]\nname = "h"\nmode = "horizontal"\nfolds = 2\n'
        said = run(text + '[[engine]]\nname = "c"\nencoder = { use = "c-gmm-fv", components = 2 }\n', code=3)
        assert "asks for the site" in said["cells"][0]["fix"]


@pytest.mark.slow
def test_variants_that_read_one_network_share_its_training(run, tmp_path):
    run(f'[[protocol]]\nname = "v"\nfolds = 2\n[[engine]]\nname = "deep"\nencoder = {DEEP}\n')
    assert len(list((tmp_path / "out" / "training").glob("*/*/checkpoint.safetensors"))) == 2
    records = [json.loads(path.read_text()) for path in (tmp_path / "out").rglob("cell.json")]
    assert all(record["times"]["fit_s"] > 0 for record in records)
    assert len({path.read_text() for path in (tmp_path / "out").rglob("hits.csv")}) > 1


@pytest.mark.slow
def test_a_killed_grid_goes_on_and_ends_the_same(run, tmp_path, toy_bags_file):
    """A 2 x 3 grid is killed in the middle of a training and started again."""
    engines = '[[engine]]\nname = "words"\nencoder = { use = "bovw", words = [2, 3, 4] }\n'
    engines += f'[[engine]]\nname = "deep"\nencoder = {DEEP.replace("epochs = 4", "epochs = 10")}\n'
    text = f'[[protocol]]\nname = "v"\nfolds = 2\n{engines}'
    run(text, out="whole")
    killed = tmp_path / "killed"
    command = [sys.executable, "-m", "slideseek", "bench", "run", str(tmp_path / "bench.toml")]
    command += ["--data", str(toy_bags_file), "-o", str(killed)]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not list(killed.glob("training/*/*/checkpoint.safetensors")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.005)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(list(killed.glob("cells/[!.]*/cell.json"))) == 3
    assert {cell["outcome"] for cell in run(text, out="killed")["cells"]} <= {"ok", "done before"}
    one, other = (
        {p.parent.name: p.read_bytes() for p in (tmp_path / d).rglob("hits.csv")} for d in ("whole", "killed")
    )
    assert len(one) == 6
    assert one == other
    assert numbers_reported(tmp_path / "whole") == numbers_reported(killed)
    assert not list(killed.glob("cells/.*"))


def numbers_reported(folder: Path):
    """What a report of a folder says in its order, times left out."""
    results = read_results(folder)
    settings = ReportSettings(resamples=100, permutations=99)
    report = make_report(results.title, results.cells, settings, results.superseded)
    rows = list(csv.DictReader(io.StringIO(render(report, "csv"))))
    assert len(rows) > 500
    facts = {name: value for name, value in report.facts.items() if name != "run"}
    return facts, [part.facts for part in report.parts], [row for row in rows if row["group"] != "cost"]


class TestSeveralDatasets:
    CONFIG = 'name = "b"\n[[engine]]\nname = "mean"\nencoder = "mean"\n'

    def test_each_has_its_folder_and_all_one_report(self, tmp_path, toy_bags_file, write_toys, slideseek):
        (tmp_path / "bench.toml").write_text(self.CONFIG)
        other = write_toys(tmp_path / "other.npz", patients=16)
        where = ("--data", toy_bags_file, "--data", other, "-o", tmp_path / "out", "--report", tmp_path / "page.html")
        done = slideseek("bench", "run", tmp_path / "bench.toml", *where)
        assert done.code == 0, done.err
        assert [len(list((tmp_path / "out" / name / "cells").iterdir())) for name in ("toy", "other")] == [1, 1]
        page = (tmp_path / "page.html").read_text()
        assert "<h2>toy, vertical</h2>" in page
        assert "<h2>other, vertical</h2>" in page
        again = slideseek("bench", "run", tmp_path / "bench.toml", *where, "--json")
        assert [run["cells"][0]["outcome"] for run in again.json["runs"]] == ["done before"] * 2
        assert "wrote" in again.err

    def test_two_of_one_name_are_refused(self, tmp_path, toy_bags_file, slideseek):
        (tmp_path / "bench.toml").write_text(self.CONFIG)
        where = ("--data", toy_bags_file, "--data", toy_bags_file, "-o", tmp_path / "out")
        done = slideseek("bench", "run", tmp_path / "bench.toml", *where)
        assert done.code == 2
        assert "two datasets are named 'toy'" in done.err

    def test_a_report_no_format_fits_is_told_before_the_run(self, tmp_path, toy_bags_file, slideseek):
        (tmp_path / "bench.toml").write_text(self.CONFIG)
        where = ("--data", toy_bags_file, "-o", tmp_path / "out", "--report", tmp_path / "page.docx")
        done = slideseek("bench", "run", tmp_path / "bench.toml", *where)
        assert done.code == 2
        assert "no format for '.docx'" in done.err
        assert not (tmp_path / "out").exists()


class TestOtherTasks:
    ENGINES = '[[engine]]\nname = "mean"\nencoder = "mean"\n'

    def test_classification(self, run, tmp_path, write_toys):
        data = write_toys(tmp_path / "more.npz", patients=40)
        text = 'task = "classification"\n[[protocol]]\nname = "classes"\nfolds = 3\n[classifier]\nhidden = 8\n'
        text += "learning_rate = 0.02\n"
        run(text + self.ENGINES, data=data)
        (cell,) = read_cells(tmp_path / "out")
        said = cell.predictions()
        assert cell.kind == "classification"
        assert [one.query_id for one in said] == [f"s{n:02d}" for n in range(80)]
        assert {one.fold for one in said} == {"0", "1", "2"}
        assert {one.predicted for one in said} == {"benign", "cancer"}
        assert sum(one.predicted == one.label for one in said) > 66
        first = (cell.folder / "predictions.csv").read_bytes()
        run(text + self.ENGINES, data=data, out="again")
        assert (read_cells(tmp_path / "again")[0].folder / "predictions.csv").read_bytes() == first

    def test_sets_of_rows_cannot_be_classified(self, run):
        said = run('task = "classification"\n[[engine]]\nname = "y"\nencoder = "yottixel"\n', code=3)
        assert "needs one row" in said["cells"][0]["cause"]

    def test_training_keeps_the_log_and_the_values_of_a_slide(self, run, tmp_path):
        engine = f'[[engine]]\nname = "d"\nencoder = {DEEP.replace("[8, 16, 24]", "24")}\n'
        run(f'task = "training"\ntop = 10\n[[protocol]]\nname = "v"\nfolds = 2\n{engine}')
        (cell,) = read_cells(tmp_path / "out")
        assert cell.training()["epoch"] == [1.0, 2.0, 3.0, 4.0]
        assert "gradient_l1" in cell.training()
        values = cell.values()
        assert values["values"].shape == values["variance"].shape == (10,)
        assert (np.diff(values["variance"]) <= 0).all()

    def test_an_encoder_without_a_log_has_no_curves(self, run):
        assert "no training log" in run(f'task = "training"\n{self.ENGINES}', code=3)["cells"][0]["cause"]


def test_the_commands_errors(slideseek, tmp_path):
    assert "bundled configuration" in slideseek("bench", "run", "--list").out
    assert slideseek("bench", "run", "--list", "--json").json["datasets"].keys() >= {"archive", "tcga", "lks"}
    assert slideseek("bench", "run").code == 2
    done = slideseek("bench", "run", "table1", "--data", tmp_path / "none.npz")
    assert (done.code, "does not exist" in done.err) == (2, True)


def test_generated_slides(run, tiny_archive, tmp_path):
    run('[[engine]]\nname = "mean"\nencoder = "mean"\n', data=tiny_archive)
    (path,) = (tmp_path / "out").rglob("hits.csv")
    assert len(read_hits(path)) == 8
