"""Results never outlive the code that made them: an encoder is edited, or upgraded, under the same configuration."""

import importlib
import json
import sys
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from slideseek.archive.archive import Archive
from slideseek.plugins import load_registry
from slideseek_apps.viewer.api.services import Services
from slideseek_apps.viewer.app import make_app
from slideseek_apps.viewer.notebook import Notebook
from slideseek_apps.viewer.search_service import SearchService
from slideseek_apps.viewer.tiles import Pictures
from slideseek_apps.viewer.uploads import Uploads
from slideseek_apps.viewer.worker_pools import WorkerPool

MODULE = """
from dataclasses import dataclass
import numpy as np
from slideseek.hookspecs import hookimpl
from slideseek.types import Code, CodeSpec
from slideseek_components.encoders.mean import Mean

@hookimpl
def register_encoders(register):
    register("drifting", "drifting:Drifting", "drifts")

@dataclass
class Drifting{bases}:
    {revision}
    def spec(self, width):
        return CodeSpec("float", width)

    def encode(self, bag):
        return Code(bag.slide_id, (bag.features.mean(axis=0) * np.float32({factor}))[None])
"""
ENGINE = """
[[engine]]
name       = "drift"
selector   = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.5 }
featurizer = { use = "colour-texture" }
encoder    = { use = "drifting" }
index      = { use = "cosine" }
"""


class Author:
    """Somebody who releases and edits an encoder."""

    def __init__(self, installed, editable):
        self._installed, self._editable = installed, editable

    def release(self, version="0.1.0", factor=1, revision="", bases=""):
        site = self._installed("slideseek-drifting", version, {"drifting": "drifting"}, self._editable)
        (site / "drifting.py").write_text(MODULE.format(factor=factor, revision=revision, bases=bases))
        self.forget()

    def forget(self):
        """Start as a new process does."""
        sys.modules.pop("drifting", None)
        importlib.invalidate_caches()


@pytest.fixture(params=["upgraded", "edited"])
def change(request, installed, monkeypatch):
    """The encoder, released as 0.1.0, and how its code is changed: `change()`."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    author = Author(installed, editable=request.param == "edited")
    author.release()
    yield lambda: author.release("0.1.0" if request.param == "edited" else "0.2.0", factor=-1)
    author.forget()


@pytest.fixture
def author(installed, monkeypatch):
    """Somebody whose releases are installed, not edited."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made = Author(installed, editable=False)
    yield made
    made.forget()


@pytest.fixture
def archive(tiny_archive, slideseek):
    """Build with the encoder as it is now: `archive()`."""

    def build():
        (tiny_archive / "slideseek.toml").write_text(ENGINE)
        assert slideseek("build", "-a", tiny_archive).code == 0
        return tiny_archive

    return build


def check_refused(said):
    assert "encoder 'drifting' was slideseek-drifting 0.1.0" in said, said
    assert "and is now slideseek-drifting 0." in said and "must not be mixed" in said, said
    assert "run 'slideseek build'" in said, said


@pytest.mark.parametrize("region", [(), ("--region", "64,64,192,192")], ids=["slide", "region"])
def test_search_refuses(change, archive, slideseek, region):
    root = archive()
    assert slideseek("search", "s0", "-a", root, *region).code == 0
    change()
    done = slideseek("search", "s0", "-a", root, *region)
    assert done.code and not done.out
    check_refused(done.err)


def test_session_refuses(change, archive, slideseek, tmp_path):
    root = archive()
    change()
    (tmp_path / "script.txt").write_text("search s0\n")
    done = slideseek("session", root, "--script", tmp_path / "script.txt")
    assert done.code
    check_refused(done.err)


def test_viewer_refuses(change, archive, tmp_path):
    root = archive()
    change()
    searching = SearchService(Archive(root), load_registry(), session="test")
    pools = {name: WorkerPool(name, workers=1, waiting=8) for name in ("pixels", "quick", "slow")}
    (tmp_path / "uploads").mkdir()
    uploads = Uploads(tmp_path / "uploads")
    pictures, notebook = Pictures(searching.archive), Notebook(searching.archive.root, True)
    services = Services(searching=searching, pictures=pictures, uploads=uploads, notebook=notebook, **pools)
    client = TestClient(make_app(services), raise_server_exceptions=False)
    key = client.get("/api/slides").json()["slides"][0]["key"]
    for query in (
        {"kind": "slide", "slide": key},
        {"kind": "region", "slide": key, "x": 64, "y": 64, "width": 192, "height": 192},
    ):
        answer = client.post("/api/search", json={"engine": "drift", "query": query})
        assert answer.status_code == 409
        check_refused(" ".join(answer.json().values()))
    problems = [one["problem"] for one in client.get("/api/archive").json()["engines"]]
    assert "encoder 'drifting' was slideseek-drifting 0.1.0" in problems[0]
    services.close()


def test_build_computes_the_codes_again_and_nothing_else(change, archive, slideseek):
    root = archive()
    before = slideseek("status", "-a", root, "--json").json
    change()
    done = slideseek("build", "-a", root)
    assert done.code == 0, done.err
    assert "encoder 'drifting' was slideseek-drifting 0.1.0" in done.err and "its codes are computed again" in done.err
    after = slideseek("status", "-a", root, "--json").json
    for old, new in zip(before["slides"], after["slides"], strict=True):
        old, new = (one["engines"]["drift"]["stages"] for one in (old, new))
        assert old["select"] == new["select"] and old["featurize"] == new["featurize"]
        assert old["encode"]["seconds"] != new["encode"]["seconds"]  # times of day are kept to the second only
    assert slideseek("search", "s0", "-a", root).code == 0
    assert "computed again" not in slideseek("build", "-a", root).err


def test_bench_runs_the_cell_again(change, slideseek, tmp_path):
    rng = np.random.default_rng(0)
    known: dict[str, Any] = {"patient": [f"p{n}" for n in range(6)], "label": ["a", "b"] * 3, "site": ["colon"] * 6}
    ids = [f"b{n}" for n in range(6)]
    x = rng.normal(size=(30, 8)).astype(np.float32)
    np.savez(tmp_path / "toy.npz", x=x, bag=np.repeat(np.arange(6), 5), slide_id=ids, **known)
    (tmp_path / "bench.toml").write_text(
        'seeds = [0]\n[[protocol]]\nname = "all"\nmode = "vertical"\n[[engine]]\nname = "x"\nencoder = "drifting"\n'
    )

    def outcome():
        run = (
            "bench",
            "run",
            tmp_path / "bench.toml",
            "--data",
            tmp_path / "toy.npz",
            "-o",
            tmp_path / "out",
            "--json",
        )
        done = slideseek(*run)
        assert done.code == 0, done.err
        return done.json["cells"][0]["outcome"]

    assert [outcome(), outcome()] == ["ok", "done before"]
    change()
    assert outcome() == "ok"


def test_a_stated_revision_outlives_a_version(author, archive, slideseek):
    author.release(revision="code_revision = 3")
    root = archive()
    author.release("0.2.0", revision="code_revision = 3")
    assert slideseek("search", "s0", "-a", root).code == 0
    assert "computed again" not in slideseek("build", "-a", root).err
    author.release("0.3.0", revision="code_revision = 4", factor=-1)
    assert slideseek("search", "s0", "-a", root).code
    assert "computed again" in slideseek("build", "-a", root).err


def test_a_revision_of_slideseek_says_nothing_about_a_plugin_that_inherits_it(author, archive, slideseek):
    author.release(bases="(Mean)")
    root = archive()
    author.release("0.2.0", bases="(Mean)", factor=-1)
    done = slideseek("search", "s0", "-a", root)
    assert done.code
    check_refused(done.err)


# Not there yet: remove the mark when both commands list changed components.
def test_status_and_doctor_list_the_change(change, archive, slideseek):
    root = archive()
    change()
    for command in (("status",), ("status", "--json"), ("doctor",), ("doctor", "--json")):
        done = slideseek(*command, "-a", root)
        assert "encoder 'drifting' was slideseek-drifting 0.1.0" in done.out, (command, done.out)
        if "--json" in command:
            json.loads(done.out)
