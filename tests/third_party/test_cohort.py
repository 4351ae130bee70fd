"""A command and a kind of data of another distribution: installed in a fresh environment, used, and uninstalled."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow

PLUGIN = Path(__file__).resolve().parent / "slideseek-cohort"
BENCH = '[[protocol]]\nname = "horizontal"\nmode = "horizontal"\n[[engine]]\nname = "mean"\nencoder = "mean"\n'


@pytest.fixture(scope="module")
def environment(make_environment):
    """A fresh environment with slideseek and the plugin."""
    return make_environment("slideseek_cohort")


@pytest.fixture(scope="module")
def bags(tmp_path_factory):
    """A JSON-lines file: 12 slides of 12 patients, two sites that the features tell apart."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("bags") / "toy.jsonl"
    lines = []
    for number in range(12):
        site = ("lung", "colon")[number % 2]
        centre = [10.0, 0, 0, 0] if site == "lung" else [0, 10.0, 0, 0]
        features = (rng.normal(size=(5, 4)) + centre).round(3).tolist()
        slide = {"slide_id": f"s{number}", "patient": f"p{number}", "site": site, "label": "x", "features": features}
        lines.append(json.dumps(slide))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("config") / "bench.toml"
    path.write_text(BENCH)
    return path


def help_sections(text):
    """The names and summaries of `slideseek --help`, by section; a summary may span lines."""
    sections: dict[str, Any] = {}
    rows: Any = None
    for line in text.splitlines():
        if line and not line.startswith(" ") and line.endswith(":"):
            rows = sections.setdefault(line.rstrip(":"), [])
        elif rows is not None and line.startswith("   "):
            rows[-1] += f" {line.strip()}"
        elif rows is not None and line.strip():
            rows.append(line.strip())
    return {name: [" ".join(row.split()) for row in rows] for name, rows in sections.items()}


def test_help_lists_the_command_with_its_distribution(environment):
    sections = help_sections(environment.slideseek("--help").stdout)
    assert sections["From other plugins"] == [
        "cohort Count slides and patients by site and label. (from slideseek-cohort 0.2.0)"
    ]
    assert any(row.startswith("bench ") for row in sections["Applications"])
    assert "Broken plugins" not in sections


def test_both_are_listed(environment):
    listed = environment.json("plugins", "list")
    assert listed["broken"] == []
    own = [entry for entry in listed["components"] if entry["distribution"] == "slideseek-cohort"]
    assert [(entry["kind"], entry["name"], entry["version"]) for entry in own] == [
        ("command", "cohort", "0.2.0"),
        ("dataset", "bag-jsonl", "0.2.0"),
    ]
    shown = environment.slideseek("plugins", "list").stdout
    assert "slideseek-cohort 0.2.0" in shown
    options = environment.json("plugins", "show", "bag-jsonl")["options"]
    assert [option["name"] for option in options] == ["path", "site"]


def test_the_command_counts_an_archive(environment, slides, tmp_path):
    archive = tmp_path / "archive"
    environment.slideseek("init", archive)
    environment.slideseek("add", slides, "--manifest", slides / "manifest.csv", "-a", archive)
    expected = [
        {"site": "kidney", "label": label, "slides": 3, "patients": 3} for label in ("blue", "pink")
    ]  # fmt: skip
    assert environment.json("cohort", "-a", archive) == {"groups": expected}
    table = environment.slideseek("cohort", "-a", archive).stdout
    assert ["kidney", "pink", "3", "3"] in [line.split() for line in table.splitlines()]
    lost = environment.run("slideseek", "cohort", "-a", tmp_path / "nowhere")
    assert lost.returncode == 2
    assert "is not an archive" in lost.stderr


@pytest.mark.parametrize("named", [True, False])
def test_a_benchmark_runs_on_its_kind_of_data(environment, bags, config, tmp_path, named):
    kind = ("--dataset", "bag-jsonl") if named else ()
    done = environment.json("bench", "run", config, "--data", bags, *kind, "-o", tmp_path / "out")
    assert [cell["outcome"] for cell in done["cells"]] == ["ok"]
    assert (done["dataset"]["slides"], done["dataset"]["patients"]) == (12, 12)
    assert 'kind = "bag-jsonl"' in (tmp_path / "out" / "bench.toml").read_text()
    report = environment.slideseek("bench", "report", tmp_path / "out", "--format", "json").stdout
    (part,) = json.loads(report)["sections"]
    overview = next(table for table in part["tables"] if table["key"] == "overview")
    macro_f1 = overview["rows"][0]["entries"][[column["name"] for column in overview["columns"]].index("macro F1")]
    assert macro_f1["value"] == 100


def test_a_line_that_is_not_a_slide_is_reported(environment, bags, config, tmp_path):
    data = tmp_path / "toy.jsonl"
    data.write_text(bags.read_text() + '{"slide_id": "bad"}\n')
    done = environment.run("slideseek", "bench", "run", config, "--data", data, "-o", tmp_path / "out")
    assert done.returncode == 3
    assert "failed  toy.jsonl, line 13: it is not a slide" in done.stderr
    assert "12 slides" in done.stdout


def test_a_wrong_option_names_the_right_one(environment, bags, config, tmp_path):
    arguments = ("--data", bags, "--set", "dataset.sit=lung", "-o", tmp_path / "out")
    done = environment.run("slideseek", "bench", "run", config, *arguments)
    assert done.returncode == 2
    assert "dataset.sit: no option 'sit' in dataset 'bag-jsonl'" in done.stderr
    assert "did you mean 'site'?" in done.stderr


def test_own_tests_pass_where_it_is_installed(environment):
    run = environment.pytest(PLUGIN)
    assert run.returncode == 0, run.stdout + run.stderr


def test_uninstalled_again_the_rest_works(make_environment, bags, config, tmp_path):
    environment = make_environment("slideseek_cohort")
    environment.slideseek("cohort", "--help")
    environment.uninstall("slideseek-cohort")
    assert "cohort" not in environment.slideseek("--help").stdout
    assert environment.json("plugins", "list")["broken"] == []
    gone = environment.run("slideseek", "cohort")
    assert (gone.returncode, "No such command 'cohort'" in gone.stderr) == (2, True)
    lost = environment.run("slideseek", "bench", "run", config, "--data", bags, "--dataset", "bag-jsonl")
    assert (lost.returncode, "no dataset named 'bag-jsonl'" in lost.stderr) == (2, True)
    unknown = environment.run("slideseek", "bench", "run", config, "--data", bags)
    assert (unknown.returncode, "pass --dataset, one of archive," in unknown.stderr) == (2, True)
    rows = [json.loads(line) for line in bags.read_text().splitlines()]
    arrays: dict[str, Any] = {
        "x": np.concatenate([row["features"] for row in rows]).astype(np.float32),
        "bag": np.repeat(np.arange(12), 5),
        **{name: np.array([row[name] for row in rows]) for name in ("slide_id", "patient", "site", "label")},
    }
    np.savez(tmp_path / "toy.npz", **arrays)
    done = environment.json("bench", "run", config, "--data", tmp_path / "toy.npz", "-o", tmp_path / "out")
    assert [cell["outcome"] for cell in done["cells"]] == ["ok"]


def test_disabled_it_is_named(environment):
    done = environment.run("slideseek", "cohort", SLIDESEEK_DISABLED_PLUGINS="cohort")
    assert done.returncode == 2
    assert "The plugin 'cohort' is disabled by SLIDESEEK_DISABLED_PLUGINS." in done.stderr
