"""CSV that a spreadsheet or terminal may open: no cell is executed, every text comes back, numbers stay numbers."""

import csv
import io
import random
import re
from pathlib import Path

import pytest

from slideseek.cli.output import csv_text
from slideseek_apps.bench.ranked_lists import plain_cell

ROOT = Path(__file__).parents[3]

ATTACKS = [
    *('=HYPERLINK("http://x","y")', "=1+1", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "-cmd", "+", "-", "@", "="),
    *("\t=1+1", "\r=1+1", " =1+1", "\u00a0=1", "\n=1+1", "\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20A", "\ufeff=1+1"),
    *("'=1+1", "'quoted", "\x1b[2J\x1b]0;title\x07", "a\x1bb", "a\x00b", "a\x9bb", "a\x7f", "a\rb", "a\nb", "a\r\n=1"),
    *("\u202egnp.exe", "a\u2028b", "caf\udce9.svs", "\\u001b\x1b", "'\\\\", '="a";"b",c\n', "-1.5\n", "-1e5x", "1\t=2"),
]
HARMLESS = ["", "S-001", "C:\\slides\\a.svs", "a, b", 'a "b"', "naïve 日本", "\\u001b", "a=b", "x-1", "it's", "a@b.org"]
NUMBERS = ["-1.5", "+3", "-1e-05", "1E+05", "0.25", "-7"]
DANGEROUS = re.compile(
    r"\s*[-=+@\uff0b\uff0d\uff1d\uff20]|.*[\x00-\x1f\x7f-\x9f\u2028\u2029\u202e\ufeff\ud800-\udfff]", re.S
)


def cells(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_attack_is_written_and_all_come_back(attack):
    text = csv_text(["id", attack], [["a", attack]])
    text.encode("utf-8")
    for row in cells(text):
        assert not DANGEROUS.match(row[1])
        assert plain_cell(row[1]) == attack
    assert re.search(r"[^\n -~\u00a0-\ud7ff\uff00-\uffff]", text) is None and text.count("\n") == 2


@pytest.mark.parametrize("cell", [*HARMLESS, *NUMBERS])
def test_other_text_is_written_as_it_is(cell):
    assert cells(csv_text(["id", "x"], [["a", cell]]))[1] == ["a", cell] and plain_cell(cell) == cell


def test_numbers_stay_numbers():
    assert csv_text(["n", "m"], [[-1.5, 3], [-7, None], [1e-30, "-0.5"]]) == "n,m\n-1.5,3\n-7,\n1e-30,-0.5\n"


def test_random_text_comes_back():
    letters = "=+-@'\\ u0019abc\t\r\n\x00\x1b,;\"\uff1d"
    rng = random.Random(7)
    texts = ["".join(rng.choices(letters, k=rng.randrange(9))) for _ in range(3000)]
    rows = cells(csv_text(["n", "text"], enumerate(texts)))[1:]
    assert [plain_cell(row[1]) for row in rows] == texts


def test_all_writers_of_csv_are_this_one():
    """The log of a training has fixed names and numbers, and components cannot import the command line."""
    writes = re.compile(r"csv\.(writer|DictWriter)\b")
    found = {
        str(path.relative_to(ROOT))
        for folder in ("core", "plugins", "bench", "tools")
        for path in (ROOT / folder).rglob("*.py")
        if ".venv" not in path.parts and writes.search(path.read_text(encoding="utf-8"))
    }
    allowed = {"core/slideseek/cli/output.py", "plugins/slideseek_components/encoders/deep/checkpoint.py"}
    assert found == allowed


def test_search_prints_it(tiny_archive, tiny_slides, tmp_path, slideseek):
    manifest = tmp_path / "again.csv"
    manifest.write_text('slide_id,diagnosis\ns1,"=cmd|x"\n')
    assert slideseek("add", tiny_slides / "s1.png", "--manifest", manifest, "-a", tiny_archive).code == 0
    done = slideseek("search", "s0", "-a", tiny_archive, "--csv", "-k", "7")
    assert done.code == 0 and ",'=cmd|x," in done.out and ",=cmd" not in done.out
