"""The pages by task are true: their commands run in the order of the page, and what they quote is printed."""

import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow

PAGES = Path(__file__).resolve().parents[1] / "docs" / "how-to"
UNTIL_STOPPED = ("slideseek serve",)
"""Commands that run until they are stopped; their own tests start them."""


def commands(page: str) -> list[str]:
    """Return the commands of a page, without comments, installations, and what runs until it is stopped."""
    text = (PAGES / page).read_text(encoding="utf-8")
    lines = re.findall(r"^ {4}((?:slideseek|mkdir|python|for|umask) .*?)(?: {2,}#.*)?$", text, re.MULTILINE)
    return [line for line in lines if not line.startswith(UNTIL_STOPPED)]


def run(slideseek: Any, line: str) -> str:
    """Run a line of a page in the current folder and return what it printed; it has to succeed."""
    if line.startswith("slideseek "):
        done = slideseek(*shlex.split(line)[1:])
        assert done.code == 0, f"{line}\n{done.out}{done.err}"
        return str(done.out)
    line = line.replace("python ", f"{shlex.quote(sys.executable)} ", 1)
    return subprocess.run(["sh", "-c", line], check=True, capture_output=True, text=True, timeout=60).stdout


def visible(file: Path) -> str:
    """Return what a person reads in a page or table, without pictures and styles."""
    return re.sub(r"<style.*?</style>|<[^>]*>", " ", file.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_a_hospital_archive_is_built_shared_and_restored(
    tiny_slides: Path, slideseek: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(tiny_slides / "manifest.csv", "slides.csv")
    # The painted slides are too small for the patches of the default engine.
    small = Path("small.toml")
    small.write_text(
        '[[engine]]\nname = "small"\nselector = { use = "grid", size = 64, mpp = 1.0, min_tissue = 0.0 }\n'
        'featurizer = { use = "colour-texture" }\nencoder = { use = "mean" }\nindex = { use = "cosine" }\n'
    )
    lines = commands("hospital.md")
    assert [line.split()[1] for line in lines if line.startswith("slideseek")] == [
        *("init", "add", "build", "status", "duplicates", "doctor", "search", "history", "history"),
        *("report", "export", "export", "build", "doctor"),
    ]
    said = {}
    for line in lines:
        here = line.replace("/slides", str(tiny_slides)).replace("S-001", "s0")
        said[line] = run(slideseek, here + " --config small.toml" * here.startswith("slideseek init"))
    for file in ("page.html", "out/slides.csv"):
        assert not re.findall(r"\b[sp][0-7]\b", visible(Path(file))), "an id has left the house"
    assert "s0" in Path("inside/pseudonyms.csv").read_text(encoding="utf-8")
    assert Path("backup/pseudonyms.key").read_bytes() == Path("hospital/pseudonyms.key").read_bytes()
    assert " 0 fail" in said["slideseek doctor backup --verify"]
    done = slideseek("history", "--json", "-a", "backup")
    assert done.code == 0 and [entry["answer"]["query"] for entry in done.json] == ["s0"], (
        "the log is part of the backup"
    )


def test_a_gated_model_without_its_file_is_an_error_that_names_it(
    slideseek: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_spec("timm") is None:
        pytest.skip("the extra 'timm' is not installed")
    monkeypatch.chdir(tmp_path)
    page = (PAGES / "gated-model.md").read_text(encoding="utf-8")
    engine = re.search(r"^ {4}\[\[engine\]\]\n(?: {4}.*\n)+", page, re.MULTILINE)
    assert engine is not None
    Path("uni.toml").write_text(engine[0].replace("/models/UNI", f"{tmp_path}/models/UNI"))
    done = slideseek("init", "archive", "--config", "uni.toml")
    shown = re.search(r"^ {4}(error: .*)\n {4}(.*)$", page, re.MULTILINE)
    assert shown is not None
    last = done.err.replace(str(tmp_path), "").splitlines()[-2:]
    assert done.code == 2 and last == [shown[1], shown[2]]
    listed = run(slideseek, "slideseek featurizers")
    assert "timm uni" in listed and "terms to accept" in listed


def test_commands_on_the_paper_run(
    tiny_archive: Path, slideseek: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.move(tiny_archive, "my-archive")
    lines = commands("reproduce-the-paper.md")
    assert len(lines) == 5
    plan = "slideseek bench paper --plan"
    said = {line: run(slideseek, line) for line in lines if line != plan or find_spec("idc_index_data") is not None}
    assert "Trial run, not a result" in said["slideseek bench report bench-table1-my-archive"]
    if plan in said:
        assert "LUAD" in said[plan] and "paper's test side" in said[plan]


def test_what_the_page_on_reports_quotes_is_printed(
    tiny_archive: Path, slideseek: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.move(tiny_archive, "demo")
    page = (PAGES / "read-a-report.md").read_text(encoding="utf-8")
    said = [run(slideseek, line.replace("breast-duc-02", "s0")) for line in commands("read-a-report.md")]
    assert len(said) == 5 and Path("page.html").is_file() and Path("out/report.html").is_file()
    vote, counted = re.search(r"^ {4}(vote for .*)\n {6}(.*)$", page, re.MULTILINE).groups()  # type: ignore[union-attr]
    for quoted in (vote, counted):
        text = re.escape(quoted).replace(r"normal\ mucosa", ".*")
        assert re.search(re.sub(r"\d+", r"\\d+", text), said[0]), quoted
    for name in re.findall(r"^\| ([A-Z][\w ]+) \|", page.partition("| table |")[2], re.MULTILINE):
        assert name in said[3], f"no table {name!r}"


def test_the_encoders_of_your_choice_are_compared(
    slideseek: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    bag = np.repeat(np.arange(12), 6)
    np.savez("bags.npz", x=random.normal(size=(72, 8)).astype(np.float32) + bag[:, None] % 2, bag=bag, y=bag % 2)
    page = (PAGES / "benchmark.md").read_text(encoding="utf-8")
    written = re.search(r"^ {4}name = \"mine\"\n(?:(?: {4}.*)?\n)+", page, re.MULTILINE)
    assert written is not None
    Path("mine.toml").write_text(written[0])
    lines = [line for line in commands("benchmark.md") if "mine" in line]
    assert len(lines) == 2
    table = [run(slideseek, line) for line in lines][1].partition("All variants")[2].partition("How the engines")[0]
    for name in ("mean", "gmm-fv components=1", "gmm-fv components=4", "deep-sbfv"):
        assert re.search(rf"^ *{name} +1 +\d+\.\d", table, re.MULTILINE), table
