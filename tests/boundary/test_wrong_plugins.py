"""Every wrong plugin of the table is named by each front end, with its version and a fix, before a wrong hit."""

import os
import re
import shutil
import sys
import tomllib
from typing import Any

import numpy as np
import pytest
import tomli_w
from fastapi.testclient import TestClient
from wrong_plugins import FRONT_ENDS, TABLE

from slideseek.archive.archive import Archive
from slideseek.plugins import load_registry
from slideseek_apps.viewer.api.services import Services
from slideseek_apps.viewer.app import make_app
from slideseek_apps.viewer.notebook import Notebook
from slideseek_apps.viewer.search_service import SearchService
from slideseek_apps.viewer.tiles import Pictures
from slideseek_apps.viewer.uploads import Uploads
from slideseek_apps.viewer.worker_pools import WorkerPool

REGION = (64, 64, 192, 192)
TRIED: dict[str, set[str]] = {}
"""By row, the front ends that met it."""

USUAL = {
    "selector": 'use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5',
    "featurizer": 'use = "colour-texture"',
    "encoder": 'use = "mean"',
    "index": 'use = "cosine"',
}


def engine_text(row):
    """Return the table of an engine that uses a wrong component and is named after it."""
    parts = USUAL | {kind: f'use = "{use}"' for kind, use in row.use}
    parts["rerank" if row.kind == "reranker" else row.kind] = ", ".join(
        filter(None, (f'use = "{row.component or row}"', row.options))
    )
    return "\n".join(["[[engine]]", f'name = "{row}"', *(f"{kind} = {{ {text} }}" for kind, text in parts.items())])


@pytest.fixture(scope="module")
def went_wrong(wrong_site, tiny_model, tmp_path_factory, slideseek):
    """An archive with one engine per row; those that an honest component can build are built, then a slide is removed.

    What is found when an engine is made was never built: every front end makes that engine itself.
    """
    root = tmp_path_factory.mktemp("wrong") / "archive"
    shutil.copytree(tiny_model / "archive", root)
    honest = '[[engine]]\nname = "honest"\n' + "\n".join(f"{kind} = {{ {text} }}" for kind, text in USUAL.items())
    (root / "slideseek.toml").write_text("\n\n".join([honest, *map(engine_text, TABLE)]))
    built = ["honest", *(row.name for row in TABLE if row.at != "made")]
    done = slideseek("build", "-a", root, *(f"--engine={name}" for name in built))
    assert done.code == 0, done.err
    assert slideseek("remove", "s7", "-a", root).code == 0
    return root


@pytest.fixture(scope="module")
def viewer(went_wrong, tmp_path_factory):
    """A client of the viewer's API, without the network, and the keys of the slides."""
    searching = SearchService(Archive(went_wrong), load_registry(), session="test")
    pools = {name: WorkerPool(name, workers=1, waiting=8) for name in ("pixels", "quick", "slow")}
    uploads = Uploads(tmp_path_factory.mktemp("uploads"))
    pictures, notebook = Pictures(searching.archive), Notebook(searching.archive.root, True)
    services = Services(searching=searching, pictures=pictures, uploads=uploads, notebook=notebook, **pools)
    client = TestClient(make_app(services), raise_server_exceptions=False)
    keys = {slide["id"]: slide["key"] for slide in client.get("/api/slides").json()["slides"]}
    yield client, keys
    services.close()


@pytest.fixture(scope="module")
def bags(tmp_path_factory):
    """Small bags for the benchmark: six patients with two slides each, of two labels."""
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("bags") / "toy.npz"
    patients = np.repeat(np.arange(6), 2)
    owner = np.repeat(np.arange(12), 5)
    label = patients % 2
    x = rng.normal(size=(60, 8)).astype(np.float32)
    x[:, 0] += 3 * label[owner]
    known = {
        "slide_id": [f"b{number:02d}" for number in range(12)],
        "patient": [f"p{patient}" for patient in patients],
        "site": ["colon"] * 12,
        "label": [("benign", "cancer")[one] for one in label],
        "center": [f"c{patient % 3}" for patient in patients],
    }
    arrays: dict[str, Any] = {name: np.array(values) for name, values in known.items()}
    np.savez(path, x=x, bag=owner, **arrays)
    return path


class FrontEnds:
    """Meet one wrong component through each front end; each method returns (failed, everything said, hits shown)."""

    def __init__(self, row, slideseek, went_wrong, tiny_model, viewer, bags, folder):
        self.row, self.run, self.archive, self.tiny = row, slideseek, went_wrong, tiny_model
        self.client, self.keys = viewer
        self.bags, self.folder = bags, folder
        # A stored slide needs no component but the index and the reranker, if the engine was built.
        self.by_region = row.at == "build"

    def build(self):
        archive = self.folder / "archive"
        if self.row.at == "noted":
            shutil.copytree(self.archive, archive)
        else:
            shutil.copytree(self.tiny / "archive", archive)
            (archive / "slideseek.toml").write_text(engine_text(self.row))
        done = self.run("build", "-a", archive, "--engine", self.row, "--json", "--workers", "0")
        failures = done.json.get("failures", {}).values()
        fixes = [f"fix: {one['fix']}" for one in failures if one["fix"]]
        return done.code, "\n".join([done.err, *(one["cause"] for one in failures), *fixes[:1]]), []

    def search(self):
        region = ("--region", ",".join(map(str, REGION))) if self.by_region else ()
        evidence = ("--evidence",) if self.row.at == "explain" else ()
        done = self.run(
            "search", "s0", "-k", "3", "-a", self.archive, "--engine", self.row, "--json", *region, *evidence
        )
        answer = done.json if done.code == 0 else {"hits": [], "notes": [done.out]}
        said = "\n".join([done.err, *answer["notes"]])
        return done.code, said, [hit["slide"]["id"] for hit in answer["hits"]]

    def session(self):
        script = self.folder / "script.txt"
        region = f" --region {','.join(map(str, REGION))}" if self.by_region else ""
        script.write_text(f"k 3\nsearch s0{region}\n" + ("explain 1\n" if self.row.at == "explain" else ""))
        done = self.run("session", self.archive, "--engine", self.row, "--script", script)
        shown = done.out.partition("> search")[2] if self.row.at != "explain" else ""
        return done.code, done.err, re.findall(r"^ *\d+ .*?\b(s\d)\b", shown, re.M)

    def viewer(self):
        query = {"kind": "slide", "slide": self.keys["s0"]}
        if self.by_region:
            query |= {"kind": "region", **dict(zip(("x", "y", "width", "height"), REGION))}
        asked = {"engine": self.row.name, "query": query}
        if self.row.at == "explain":
            answer = self.client.post("/api/explain", json=asked | {"hit": self.keys["s2"]})
        else:
            answer = self.client.post("/api/search", json=asked | {"k": 3})
        told = answer.json()
        if answer.status_code == 200:
            return 0, "\n".join(told.get("notes", [])), [hit["slide"]["id"] for hit in told.get("hits", [])]
        assert answer.status_code in (400, 409), answer.text
        return answer.status_code, f"{told['error']}\n  fix: {told['fix']}" if told["fix"] else told["error"], []

    def bench(self):
        row, config = self.row, self.folder / "bench.toml"
        engine = {"name": row.name, "encoder": {"use": "mean"}, "index": {"use": dict(row.use).get("index", "cosine")}}
        engine[row.kind] = {"use": row.component or row.name} | tomllib.loads(row.options.replace(", ", "\n"))
        data = {"seeds": [0], "protocol": [{"name": "all", "folds": 2, "mode": "vertical"}], "engine": [engine]}
        config.write_text(tomli_w.dumps(data))
        done = self.run("bench", "run", config, "--data", self.bags, "-o", self.folder / "out", "--json")
        cells = done.json.get("cells", [])
        assert all(cell["outcome"] == ("failed" if done.code else "ok") for cell in cells)
        fixes = [f"{cell['cause']}\n  fix: {cell['fix']}" for cell in cells if cell.get("fix")]
        return done.code, "\n".join([done.err, *fixes]), []


@pytest.fixture
def front_ends(request, slideseek, went_wrong, tiny_model, viewer, bags, tmp_path):
    """The front ends for one row: `front_ends(row)`."""

    def of(row, folder=tmp_path):
        folder.mkdir(exist_ok=True)
        return FrontEnds(row, slideseek, went_wrong, tiny_model, viewer, bags, folder)

    return of


def check_named(row, code, said, hits):
    """Check that an error names the component with its version, says what is wrong and how to fix it, and no more."""
    assert code not in (0, 500), said
    assert row.owner in said, said
    assert re.search(row.says, said, re.S), said
    assert re.search(r"fix: \w", said), said
    assert not hits, said
    assert "Traceback" not in said and "bug in" not in said, said


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_named(row, front_ends, armed, monkeypatch, slideseek, went_wrong):
    monkeypatch.setenv("SLIDESEEK_IMPORT_SECONDS", "1")
    for end in row.ends:
        for name in [name for name in sys.modules if name.startswith("on_import")]:
            monkeypatch.delitem(sys.modules, name)
        code, said, hits = getattr(front_ends(row), end)()
        print(f"{row} in {end}: {code}\n{said}")
        TRIED.setdefault(row.name, set()).add(end)
        if row.at == "fine":
            assert code == 0, said
            assert len(hits) == (3 if end in ("search", "session", "viewer") else 0), said
        elif row.at == "noted" and end != "build":
            assert code == 0, said
            assert row.owner in said and re.search(row.says, said), said
            assert "run 'slideseek build'" in said
            sound = slideseek("search", "s0", "-k", "3", "-a", went_wrong, "--engine", "honest", "--json").json
            assert hits == [hit["slide"]["id"] for hit in sound["hits"]]
        else:
            check_named(row, code, said, hits)


@pytest.mark.parametrize("end", ["build", "search", "session", "viewer", "bench"])
def test_debug_shows_the_traceback_of_the_author(end, front_ends, armed, monkeypatch, capsys):
    monkeypatch.setenv("SLIDESEEK_DEBUG", "1")
    row = next(row for row in TABLE if row.name == "encode-raises-on-slides")
    code, said, _ = getattr(front_ends(row), end)()
    said += capsys.readouterr().err
    assert code and row.owner in said
    assert "Traceback" in said and "wrong_plugins.py" in said and "in boom" in said, said


def test_plugins_that_are_wrong_as_a_whole_are_listed(went_wrong, slideseek):
    listed = slideseek("plugins", "list", "--json").json
    broken = {one["distribution"]: one for one in listed["broken"]}
    assert broken.keys() == {"slideseek-future", "slideseek-ancient", "slideseek-newer"}
    assert broken["slideseek-newer"]["version"] == "1.5"
    assert "unknown hook register_viewers, not used" in broken["slideseek-newer"]["reason"]
    assert "beside-an-unknown-hook" in {one["name"] for one in listed["components"]}
    told = slideseek("plugins", "list")
    assert "API version 99" in told.out + told.err and "API version 0" in told.out + told.err


def test_all_are_named(request, capsys):
    asked = {item.callspec.params["row"].name for item in request.session.items if item.name.startswith("test_named[")}
    rows = {row.name: row for row in TABLE}
    assert len(rows) == len(TABLE) >= 40
    assert all(row.ends and set(row.ends) <= set(FRONT_ENDS) for row in TABLE)
    if "PYTEST_XDIST_WORKER" not in os.environ:  # another process may have tried some
        assert asked == TRIED.keys() and all(TRIED[name] == set(rows[name].ends) for name in asked)
    wrong = {row.name for row in TABLE if row.at != "fine"}
    met = sum(len(rows[name].ends) for name in asked)
    with capsys.disabled():
        print(f"\n{len(asked & wrong)} of {len(wrong)} wrong plugins are named, in {met} meetings with a front end")
        print(f"{len(asked - wrong)} of {len(rows) - len(wrong)} that only look wrong work")
