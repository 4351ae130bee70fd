"""The page for authors of a first plugin, followed from its first line to its last.

Only `pip install -e` is not run, because it needs an index of packages: a `.dist-info` folder made from the scaffold's
own `pyproject.toml` tells Python the same.
"""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "plugins" / "first-encoder.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^ {4}((?:slideseek|python|pip) .*)$", PAGE, re.MULTILINE)


def install(project: Path) -> None:
    """Do what `pip install -e` does, for a project whose `src` is on the path."""
    described = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = project / "src" / f"{described['name'].replace('-', '_')}-{described['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {described['name']}\nVersion: {described['version']}\n"
    )
    points = described["entry-points"]["slideseek"]
    (info / "entry_points.txt").write_text("[slideseek]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()))


@pytest.fixture
def workplace(tmp_path, paint_tiny):
    """A folder with slides named as the page names them, and a manifest."""
    (tmp_path / "slides").mkdir()
    rows = ["slide_id,case_id,primary_site,diagnosis,mpp"]
    for number in range(1, 7):
        paint_tiny(tmp_path / "slides" / f"S-00{number}.png", number, coarse=number % 2 == 0, side=1536)
        rows.append(f"S-00{number},P-{number},colon,{('fine', 'coarse')[number % 2 == 0]},0.5")
    (tmp_path / "slides.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


def test_the_page_is_true_from_start_to_end(workplace):
    def run(line: str, *, code: int = 0) -> str:
        program, *arguments = shlex.split(line)
        command = [sys.executable, *(["-m", "slideseek"] if program == "slideseek" else []), *arguments]
        settings = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "SLIDESEEK"))}
        settings["PYTHONPATH"] = str(workplace / "slideseek-median-sign" / "src")
        done = subprocess.run(command, cwd=workplace, env=settings, capture_output=True, text=True, check=False)
        assert done.returncode == code, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    new, pip, *rest = COMMANDS
    assert new.startswith("slideseek plugins new") and pip.startswith("pip install -e")
    run(new)
    project = workplace / "slideseek-median-sign"
    listed = re.findall(r"^ {6}(\S+\.(?:py|md|toml))", PAGE, re.MULTILINE)
    assert len(listed) == 5 and all((project / file).is_file() for file in listed)
    install(project)

    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        heading, _, code = block.partition("\n")
        file = project / heading.removeprefix("# ")
        assert file.is_file(), "the page replaces what the scaffold wrote"
        file.write_text(code, encoding="utf-8")
    engine, *_ = re.findall(r"^ {4}\[\[engine\]\]\n(?: {4}.*\n)+", PAGE, re.MULTILINE)
    (workplace / "medians.toml").write_text(engine)
    compared, *_ = re.findall(r"^ {4}name  = \"compare\"\n(?:(?: {4}.*)?\n)+", PAGE, re.MULTILINE)
    (workplace / "compare.toml").write_text(compared)

    said = {line: run(line) for line in rest}
    assert [line.split()[1] for line in rest if line.startswith("slideseek")] == [
        *("plugins", "plugins", "plugins", "init", "add", "build", "search", "bench", "bench")
    ]
    checked = said["slideseek plugins check median-sign"]
    count = re.search(r"(\d+) of (\d+) checks passed", checked)
    assert count is not None and count[1] == count[2] and int(count[1]) > 15
    assert "median-sign" in said["slideseek plugins list --kind encoder"]
    assert "quantile" in said["slideseek plugins show median-sign"]
    hits = re.findall(r"S-00\d", said["slideseek search S-001 -a archive -k 3"].partition("rank")[2])
    assert len(hits) == 3 and hits[0] in ("S-003", "S-005"), "a slide of the same texture is nearest"

    table = said[rest[-1]].partition("All variants")[2].partition("How the engines")[0]
    for name in ("median-sign", "mean", "yottixel"):
        assert re.search(rf"^ *{name} +[13] +\d+\.\d", table, re.MULTILINE), table

    (workplace / "typo.toml").write_text(engine.replace("quantile", "quantil"))
    wrong = run("slideseek init other --config typo.toml", code=2)
    shown = re.search(r"^ {4}(error: engine\.medians.*)\n {4}(.*)$", PAGE, re.MULTILINE)
    assert shown is not None and wrong.splitlines()[-2:] == [shown[1], shown[2]]
