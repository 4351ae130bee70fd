"""The scaffold writes distributions that work, and refuses what would not."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from slideseek.errors import UsageError
from slideseek.plugins import Kind
from slideseek_apps.testing.scaffold import create
from slideseek_apps.testing.scaffold.create import KINDS


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_generated_tests_pass(tmp_path: Path, kind: Kind) -> None:
    made = create(tmp_path, f"toy-{kind}", kind)
    assert made == tmp_path / f"slideseek-toy-{kind}"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=made, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert " passed" in run.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_generated_files_are_tidy(tmp_path: Path, kind: Kind) -> None:
    made = create(tmp_path, "my-own-thing", kind)
    project = tomllib.loads((made / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["name"] == "slideseek-my-own-thing"
    assert project["project"]["entry-points"]["slideseek"] == {"my-own-thing": "slideseek_my_own_thing.plugin"}
    names = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
    assert names == {
        "README.md",
        "pyproject.toml",
        "src/slideseek_my_own_thing/__init__.py",
        "src/slideseek_my_own_thing/plugin.py",
        "src/slideseek_my_own_thing/py.typed",
        f"src/slideseek_my_own_thing/{kind}.py",
        f"tests/test_{kind}.py",
    }
    for path in made.rglob("*.*"):
        assert not path.is_file() or "$" not in path.read_text(encoding="utf-8"), path
        # A reader builds on the library of pixels; nothing else of the components is for others.
        text = path.read_text(encoding="utf-8").replace("slideseek_components.pixels", "")
        assert path.suffix != ".py" or "slideseek_components" not in text, path
    source = made / "src" / "slideseek_my_own_thing"
    assert "slideseek_api = 1" in (source / "plugin.py").read_text(encoding="utf-8")
    component = (source / f"{kind}.py").read_text(encoding="utf-8")
    assert "code_revision: ClassVar[int] = 1" in component
    assert ('metadata={"at_query": True}' in component) == (kind in ("index", "reranker"))
    key = "rerank" if kind == "reranker" else kind
    assert kind == "reader" or f'    {key} = {{ use = "my-own-thing" }}' in (made / "README.md").read_text(
        encoding="utf-8"
    )
    for command in (["check", "--select", "E,F,W,I,N,UP,B,RUF100"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--isolated", "--line-length", "120", "."]
        run = subprocess.run(ruff, cwd=made, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout + run.stderr


def test_prefix_is_not_doubled(tmp_path: Path) -> None:
    made = create(tmp_path / "new" / "place", "slideseek-thing", "encoder")
    assert made == tmp_path / "new" / "place" / "slideseek-thing"
    assert "class Thing(Trainable, Attributable):" in (made / "src" / "slideseek_thing" / "encoder.py").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("MyEncoder", "'my-encoder'"),
        ("my_encoder", "'my-encoder'"),
        ("9lives", "'my-encoder'"),
        ("../up", "'up'"),
        ("", "'my-encoder'"),
        ("ok\n", "'ok'"),
    ],
)
def test_bad_name_is_refused_with_a_proposal(tmp_path: Path, name: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        create(tmp_path, name, "encoder")
    assert list(tmp_path.iterdir()) == []


def test_word_of_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the class name None, a Python keyword"):
        create(tmp_path, "none", "encoder")


def test_taken_name_is_refused_for_its_kind_only(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="encoder 'mean' is already registered by slideseek"):
        create(tmp_path, "mean", "encoder")
    assert create(tmp_path, "mean", "index").is_dir()


def test_unknown_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="kinds: selector, featurizer, encoder, index, reranker"):
        create(tmp_path, "thing", "encoders")  # type: ignore[arg-type]


def test_existing_work_is_not_overwritten(tmp_path: Path) -> None:
    made = create(tmp_path, "thing", "encoder")
    mine = made / "src" / "slideseek_thing" / "encoder.py"
    mine.write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        create(tmp_path, "thing", "encoder")
    assert mine.read_text() == "mine"


def test_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "slideseek-thing").mkdir()
    assert (create(tmp_path, "thing", "selector") / "pyproject.toml").is_file()
