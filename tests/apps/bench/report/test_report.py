"""The report: what it shows of which cells, and that its numbers are those of scikit-learn."""

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from PIL import Image
from sklearn.metrics import f1_score

from slideseek.searching.votes import majority
from slideseek_apps.bench.measure_sums import ListSums
from slideseek_apps.bench.report.assemble import make_report
from slideseek_apps.bench.report.class_table import ClassRow, means_of
from slideseek_apps.bench.report.formats import render
from slideseek_apps.bench.report.settings import ReportSettings
from slideseek_apps.bench.report.table import Number
from slideseek_apps.bench.report.terminal import render_terminal
from slideseek_apps.bench.results import read_results
from slideseek_apps.bench.scoring import score

FAST = ReportSettings(resamples=200, permutations=199)


@pytest.fixture(scope="module")
def report(full_results):
    results = read_results(full_results)
    return make_report(results.title, results.cells, FAST)


def table(part, key):
    return next(t for t in part.tables if t.key == key)


def test_the_cells_decide_what_is_shown(report):
    shown = {part.heading: ([t.key for t in part.tables], [f.key for f in part.figures]) for part in report.parts}
    assert shown == {
        "simulated, vertical": (
            [
                "overview",
                "training",
                "classes",
                "sweep-lambda",
                "sweep-bits",
                "comparisons",
                "ranks",
                "conventions",
                "options",
            ],
            ["engines", "sweep-lambda", "sweep-bits", "time-bits", "size", "values", "gradient"],
        ),
        "simulated, horizontal": (
            ["overview", "training", "classes", "comparisons", "ranks", "conventions", "options", "classification"],
            ["engines"],
        ),
        "simulated, vertical: shuffled-label control": (
            ["overview", "training", "classes", "conventions", "options"],
            [],
        ),
    }


def test_numbers_are_those_of_scikit_learn(full_results, report):
    results = read_results(full_results)
    cells = [c for c in results.cells if c.name == "c-deep-sfv" and c.kind == "retrieval"]
    assert [cell.seed for cell in cells] == [0, 1, 2]
    macro, weighted = [], []
    for cell in cells:
        queries = cell.hits()
        truth = [f"{q.site}/{q.label}" for q in queries]
        said = [f"{q.site}/{majority([hit.label for hit in q.hits[:3]])}" for q in queries]
        macro.append(100 * f1_score(truth, said, average="macro"))
        weighted.append(100 * f1_score(truth, said, average="weighted"))
    row = next(row for row in table(report.parts[0], "overview").rows if row.heads == ("c-deep-sfv", "3"))
    assert row.entries[0].value == pytest.approx(sum(macro) / 3, abs=1e-10)
    assert row.entries[1].value == pytest.approx(sum(weighted) / 3, abs=1e-10)
    mean = sum(macro) / 3
    assert row.entries[0].spread == pytest.approx((sum((m - mean) ** 2 for m in macro) / 2) ** 0.5, abs=1e-10)
    assert row.entries[0].low < row.entries[0].value < row.entries[0].high


def test_means_below_classes_are_the_means_of_the_rows(report):
    """The code that makes the paper's means from its rows, and the statistic with intervals, agree."""
    classes = table(report.parts[0], "classes")
    body = [ClassRow(r.heads[0], r.heads[1], float(r.heads[2]), r.entries) for r in classes.rows if not r.summary]
    macro, weighted = (row.entries for row in classes.rows if row.summary)
    plain = means_of(body)
    for i in (0, 1):  # one seed each
        assert macro[i].value == pytest.approx(plain.macro[i].value, abs=1e-10)
        assert weighted[i].value == pytest.approx(plain.weighted[i].value, abs=1e-10)


def test_columns_of_a_sweep_are_grouped_by_value(report):
    bits = table(report.parts[0], "sweep-bits")
    assert bits.groups == [("bits = 500", 2), ("bits = 5,000", 2), ("bits = 40,000", 2)]
    assert [column.name for column in bits.columns[:2]] == ["c-deep-bfv", "c-deep-sbfv"]
    assert table(report.parts[0], "sweep-lambda").groups[0] == ("lambda = 1e-5", 2)
    for row in bits.rows:
        for start in (0, 2, 4):
            assert sum(entry.best for entry in row.entries[start : start + 2]) in (0, 1)


def test_every_pair_of_plain_engines_is_compared_once(report):
    compared = table(report.parts[0], "comparisons")
    pairs = {frozenset(row.heads) for row in compared.rows}
    assert len(pairs) == len(compared.rows) == 6 * 5 / 2
    assert "15 comparisons" in compared.caption


def test_the_order_of_plain_engines_has_a_top_group(report):
    ranks = table(report.parts[0], "ranks")
    assert len(ranks.rows) == 6 and "sites are drawn with replacement (3 here)" in ranks.caption
    f1, first, _, group = zip(*(row.entries for row in ranks.rows))
    assert [number.value for number in f1] == sorted((number.value for number in f1), reverse=True)
    assert sum(number.value for number in first) == pytest.approx(100) and group[0] == "yes"


def test_against_compares_with_one(small_results, slideseek):
    done = slideseek("bench", "report", small_results, "--format", "json", "--against", "yottixel")
    compared = next(t for t in done.json["sections"][0]["tables"] if t["key"] == "comparisons")
    assert {row["against"] for row in compared["rows"]} == {"yottixel"}
    wrong = slideseek("bench", "report", small_results, "--against", "yotixel")
    assert wrong.code == 2
    assert "did you mean 'yottixel'?" in wrong.err


def test_conventions_are_named_and_change_the_numbers(small_results):
    results = read_results(small_results)
    found = {}
    for tie in ("nearest", "correct", "strict"):
        report = make_report("", results.cells, ReportSettings(tie=tie, resamples=100, permutations=99))
        overview = table(report.parts[0], "overview")
        assert f"majority-3, tie {tie}." in overview.caption
        found[tie] = overview.rows[0].entries[2].value
    assert found["strict"] < found["nearest"] < found["correct"]


def test_an_unavailable_divisor_is_a_dash_and_a_note(simulation):
    made = simulation()
    made.retrieval("mean", 0.5)
    (path,) = made.folder.glob("cells/*/hits.csv")
    rows = list(csv.reader(path.open()))
    path.write_text("\n".join(",".join(row[:-1]) for row in rows) + "\n")  # `relevant` is the last column
    cells = read_results(made.folder).cells
    default = table(make_report("", cells, FAST).parts[0], "overview")
    assert "mAP@3: divisor hits" in default.caption
    asked = ReportSettings(ap_divisor="min(k, relevant)", resamples=100, permutations=99)
    overview = table(make_report("", cells, asked).parts[0], "overview")
    names = [column.name for column in overview.columns]
    assert overview.rows[0].entries[names.index("mAP@3")].text == "–"
    assert any("unavailable" in note for note in overview.notes)


def test_engines_that_asked_less_are_reported_and_compared_on_what_they_share(simulation):
    made = simulation()
    made.retrieval("all", 0.9)
    made.slides = made.slides[:-6]
    made.retrieval("fewer", 0.5)
    part = make_report("", read_results(made.folder).cells, FAST).parts[0]
    assert any("fewer queries for fewer" in note for note in table(part, "overview").notes)
    (row,) = table(part, "comparisons").rows
    lists = {cell.name: cell.hits() for cell in read_results(made.folder).cells}
    shared = {query.query_id for query in lists["fewer"]}
    f1 = {}
    for name, queries in lists.items():
        kept = [q for q in queries if q.query_id in shared]
        said = [f"{q.site}/{majority([hit.label for hit in q.hits[:3]])}" for q in kept]
        f1[name] = 100 * f1_score([f"{q.site}/{q.label}" for q in kept], said, average="macro")
    sign = 1 if row.heads == ("all", "fewer") else -1
    assert row.entries[0].value == pytest.approx(sign * (f1["all"] - f1["fewer"]), abs=1e-10)


def test_depth_smaller_than_k_is_reported(simulation):
    made = simulation()
    made.retrieval("short", 0.5, k=2)
    overview = table(make_report("", read_results(made.folder).cells, FAST).parts[0], "overview")
    assert any("at most 2 hits" in note for note in overview.notes)


def test_classification_has_three_columns_a_class(report):
    found = table(report.parts[1], "classification")
    assert [span for _, span in found.groups] == [3, 3, 3, 2]
    assert [column.name for column in found.columns[:3]] == ["F1", "precision", "recall"]
    for row in found.rows:
        f1, precision, recall = (entry.value for entry in row.entries[:3])
        assert f1 == pytest.approx(2 * precision * recall / (precision + recall))


class Tags(HTMLParser):
    VOID = ("meta", "br", "img", "input")

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.references = [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.references += [v for k, v in attrs if k in ("src", "href") and not v.startswith("#")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing(report):
    page = render(report, "html")
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert tags.references == []
    assert "script" not in tags.seen
    assert tags.seen.count("svg") == 8
    assert tags.seen.count("table") == 22
    assert tags.seen.count("details") == 6
    assert "url(" not in page
    assert "prefers-color-scheme: dark" in page


def test_names_from_cells_are_escaped_everywhere(simulation):
    made = simulation()
    for name in ('<b>&"x_1" | 50 %', "other"):
        made.retrieval(name, 0.6, engine="e")
    report = make_report("<i>", read_results(made.folder).cells, FAST)
    page = render(report, "html")
    assert "<b>" not in page
    assert "<i>" not in page
    assert r"\textless{}b\textgreater{}\&" in render(report, "latex")
    assert r"x\_1" in render(report, "latex")
    assert r"\|" in render(report, "markdown")


def test_latex_rows_have_as_many_cells_as_columns(report):
    text = render(report, "latex")
    blocks = re.findall(r"\\begin\{tabular\}\{@\{\}([lr]+)@\{\}\}(.*?)\\end\{tabular\}", text, re.DOTALL)
    assert len(blocks) == 16
    for spec, body in blocks:
        for line in body.splitlines():
            if line.endswith(r"\\") and "multicolumn" not in line:
                assert len(re.split(r"(?<!\\)&", line)) == len(spec), line
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 16
    assert r"\textbf{" in text


def test_markdown_rows_have_as_many_cells_as_columns(report):
    blocks = re.findall(r"(?:^\|.*\n)+", render(report, "markdown"), re.MULTILINE)
    assert len(blocks) == 22
    for block in blocks:
        assert len({line.count("|") for line in block.splitlines()}) == 1


def test_csv_and_json_hold_the_same_numbers(report):
    rows = list(csv.DictReader(io.StringIO(render(report, "csv"))))
    data = json.loads(render(report, "json"))
    entries = [e for s in data["sections"] for t in s["tables"] for r in t["rows"] for e in r["entries"]]
    assert len(rows) == len(entries)
    for row, entry in zip(rows, entries):
        value = entry["value"] if isinstance(entry, dict) else None
        assert (float(row["value"]) if row["value"] else None) == value


def test_the_same_cells_give_the_same_report(small_results):
    first, second = (render(make_report("", read_results(small_results).cells, FAST), "json") for _ in range(2))
    assert first == second


def test_the_terminal_marks_the_best(small_results, slideseek):
    done = slideseek("bench", "report", small_results)
    assert done.code == 0, done.err
    assert "simulated, vertical" in done.out
    assert re.search(r"\d\d\.\d\*", done.out)


def test_wide_tables_are_shared_out_over_blocks_that_fit_the_terminal(report):
    """A squeezed column would read "91…": every number is whole at 80 columns, and the wide terminal has one block."""
    narrow, wide = (render_terminal(report, width) for width in (80, 400))
    assert max(map(len, narrow.splitlines())) <= 80 and "…" not in narrow
    interval = re.compile(r"\[[+-]?\d+\.\d, [+-]?\d+\.\d\]")
    assert sorted(interval.findall(narrow)) == sorted(interval.findall(wide)) != []
    blocks = [len(re.findall(r"─ *\n", text)) for text in (narrow, wide)]
    assert blocks[0] > blocks[1], "columns that do not fit are in further blocks"


def test_a_folder_gets_every_format(small_results, tmp_path, slideseek):
    done = slideseek("bench", "report", small_results, "-o", tmp_path / "out")
    assert done.code == 0, done.err
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"report.html", "report.md", "report.csv", "report.tex", "report.json", "report.txt", "figures"}
    figures = sorted(path.name for path in (tmp_path / "out" / "figures").iterdir())
    assert figures == [f"figure-1-engines.{suffix}" for suffix in ("pdf", "png", "svg")]
    svg = tmp_path / "out" / "figures" / "figure-1-engines.svg"
    assert "<style" not in svg.read_text() and "var(" not in svg.read_text()
    ElementTree.parse(svg)
    with Image.open(svg.with_suffix(".png")) as picture:
        assert picture.width == round(620 * 300 / 96)
    assert svg.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


def test_without_cairo_figures_are_svg_alone_and_it_is_said(small_results, tmp_path, slideseek, monkeypatch):
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    done = slideseek("bench", "report", small_results, "-o", tmp_path / "out")
    assert done.code == 0 and "pip install 'slideseek[figures]'" in done.err
    assert [path.suffix for path in (tmp_path / "out" / "figures").iterdir()] == [".svg"]


@pytest.mark.slow
def test_latex_compiles(report, tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("there is no LaTeX on this machine")
    body = render(report, "latex")
    packages = "\\usepackage[T1]{fontenc}\\usepackage{booktabs,graphicx}"
    head = f"\\documentclass[10pt,twocolumn]{{article}}{packages}\\begin{{document}}\n"
    (tmp_path / "paper.tex").write_text(head + body + "\\end{document}\n", encoding="utf-8")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    wide = [float(found) for found in re.findall(r"Overfull .hbox \(([\d.]+)pt too wide", done.stdout)]
    assert not wide, f"tables run {max(wide):.0f} pt over the page"


def test_it_says_how_engines_were_trained(simulation):
    made = simulation()
    options = {"encoder": {"use": "deep-fv", "epochs": 7, "hidden": [8, 4]}, "index": {"use": "cosine"}}
    protocol = {"name": "vertical", "mode": "vertical", "k": 5, "fit": "folds", "folds": 3}
    made.retrieval("deep", 0.8, options=options, protocol=protocol, command="slideseek bench run table1 --data x")
    still = {"name": "vertical", "mode": "vertical", "k": 5, "fit": "none"}
    made.retrieval("mean", 0.5, options={"encoder": {"use": "mean"}, "index": {"use": "cosine"}}, protocol=still)
    report = make_report("t", read_results(made.folder).cells, FAST)
    trained = {row.heads[0]: row.entries[:4] for row in table(report.parts[0], "training").rows}
    assert trained == {"deep": ("folds", "3", "7", "0"), "mean": ("nothing is learnt", "–", "–", "–")}
    shown = {row.heads[0]: row.entries for row in table(report.parts[0], "options").rows}
    assert set(shown["encoder.hidden"]) == {"8, 4", "–"} and "index.use" in shown
    assert report.facts["command"] == "slideseek bench run table1 --data x"


def test_a_trial_cannot_be_taken_for_a_result(simulation):
    made = simulation()
    made.retrieval("mean", 0.5, trial=True)
    made.retrieval("other", 0.6)
    report = make_report("Table 1", read_results(made.folder).cells, FAST)
    for name in ("terminal", "markdown", "latex", "json", "html"):
        assert "Trial run, not a result: Table 1" in render(report, name), name
    page = render(report, "html")
    assert 'class="band"' in page and "These numbers are not results." in page
    sound = make_report("Table 1", [cell for cell in read_results(made.folder).cells if not cell.trial], FAST)
    assert "not results" not in render(sound, "html") and not sound.trial


def test_an_unknown_suffix_is_refused(small_results, tmp_path, slideseek):
    done = slideseek("bench", "report", small_results, "-o", tmp_path / "x.docx")
    assert done.code == 2
    assert "no format for '.docx'" in done.err


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Number(86.604), "86.6"),
        (Number(None), "–"),
        (Number(float("nan")), "–"),
        (Number(0.0225, digits=-1), "0.0225"),
        (Number(175888.4, digits=-1), "175,888"),
        (Number(0.0, digits=-1), "0"),
        (Number(-1.25, signed=True, digits=2), "-1.25"),
        (Number(1.25, signed=True, digits=2), "+1.25"),
        (Number(-0.04, signed=True), "0.0"),
        (Number(0.04, signed=True), "0.0"),
        (Number(-0.0), "0.0"),
        (Number(12.3, 10.0, 15.0, 1.2), "12.3 ± 1.2 [10.0, 15.0]"),
    ],
)
def test_numbers_as_shown(number, text):
    assert number.full == text


@pytest.mark.parametrize("change", [{"k": 0}, {"tie": "coin"}, {"ap_divisor": "n"}, {"resamples": 5}])
def test_settings_say_what_is_allowed(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        ReportSettings(**change)


def test_queries_without_patient_are_patients_of_their_own(simulation):
    made = simulation()
    made.retrieval("mean", 0.5)
    (cell,) = read_results(made.folder).cells
    queries = [type(q)(q.query_id, q.label, q.hits) for q in cell.hits()]
    assert len(ListSums(queries).patients) == len(queries)


def test_slides_that_cannot_be_right_are_reported(simulation):
    made = simulation()
    made.slides.append(("lone", "p99", "skin", "cyst", "C0"))
    made.retrieval("mean", 0.5)
    overview = table(make_report("", read_results(made.folder).cells, FAST).parts[0], "overview")
    assert any(
        note.startswith(f"1 of {len(made.slides)} queries have no candidate of their class") for note in overview.notes
    )


def test_every_convention_is_in_the_appendix(full_results, report):
    part = report.parts[0]
    long = table(part, "conventions")
    names = [column.name for column in long.columns]
    mean, sparse = names.index("mean"), names.index("c-deep-sfv")
    cells = [c for c in read_results(full_results).cells if c.kind == "retrieval" and c.protocol.mode == "vertical"]
    scores = {
        name: [score(ListSums(c.hits(), by_site=True)) for c in cells if c.name == name and not c.control]
        for name in ("mean", "c-deep-sfv")
    }
    assert len(scores["c-deep-sfv"]) == 3
    assert [row.heads for row in long.rows] == [(s.measure, s.convention) for s in scores["mean"][0]]
    for row, one, *three in zip(long.rows, *scores["mean"], *scores["c-deep-sfv"]):
        assert row.entries[mean].value == pytest.approx(100 * one.value, abs=1e-10)
        assert row.entries[sparse].value == pytest.approx(100 * sum(s.value for s in three) / 3, abs=1e-10)
        best = max(entry.text for entry in row.entries)
        if row.heads[0].startswith("same-centre"):
            assert not any(entry.best for entry in row.entries), "more of it is not better"
        elif len({entry.text for entry in row.entries}) > 1 and "100" not in best:
            assert {entry.text for entry in row.entries if entry.best} == {best}
    assert long.title in render(report, "markdown")
    assert long.title not in render(report, "terminal") + render(report, "latex")


def test_votes_of_more_hits_than_were_stored_are_not_shown(simulation):
    made = simulation()
    made.retrieval("short", 0.5, k=3)
    part = make_report("", read_results(made.folder).cells, FAST).parts[0]
    measures = {row.heads[0] for row in table(part, "conventions").rows}
    assert {"mMV@1", "mMV@3"} <= measures
    assert not any("5" in name for name in measures)


def test_who_learns_nothing_is_reported(simulation):
    made = simulation()
    made.retrieval("mean", 0.5, protocol={"name": "vertical", "mode": "vertical", "fit": "none", "k": 5})
    part = make_report("", read_results(made.folder).cells, FAST).parts[0]
    assert part.facts["fit"] == "no engine learns"
    made.retrieval("deep", 0.5)
    part = make_report("", read_results(made.folder).cells, FAST).parts[0]
    assert part.facts["fit"] == "folds (mean: nothing is learnt)"


def test_a_section_of_other_tasks_says_what_was_used(simulation):
    made = simulation()
    made.classification("mean", 0.5)
    made.training("deep", 2.0)
    parts = make_report("", read_results(made.folder).cells, FAST).parts
    assert [part.heading for part in parts] == ["simulated, horizontal", "simulated, vertical"]
    for part in parts:
        assert part.facts["dataset"].startswith("simulated: ")
        assert part.facts["fit"] == "folds"


def test_components_of_one_version_are_named_together(simulation):
    made = simulation()
    versions = {"numpy": "2.0", "slideseek": "1.0", "encoder mean": "slideseek 1.0", "index cosine": "slideseek 1.0"}
    made.retrieval("mean", 0.5, versions=versions | {"encoder ours": "ours 0.2"})
    facts = make_report("", read_results(made.folder).cells, FAST).facts
    assert (
        facts["versions"]
        == "numpy 2.0; slideseek 1.0; encoder mean, index cosine: slideseek 1.0; encoder ours: ours 0.2"
    )


def test_several_folders_make_one_report(simulation, tmp_path, slideseek):
    first, second = simulation("first"), simulation("second")
    first.retrieval("mean", 0.2)
    second.retrieval("mean", 0.9, created="2026-02-01T00:00:00+00:00")
    second.retrieval("other", 0.5, dataset={"name": "elsewhere", "fingerprint": "9", "slides": 3, "patients": 3})
    said = slideseek("bench", "report", first.folder, second.folder, "--format", "json").json
    assert [section["heading"] for section in said["sections"]] == ["simulated, vertical", "elsewhere, vertical"]
    assert said["facts"]["cells"] == "2, 1 older ones of the same names left out"
    alone = slideseek("bench", "report", second.folder, "--format", "json").json
    assert said["sections"][0]["tables"] == alone["sections"][0]["tables"], "of cells that stand for one, the newest"


def test_what_is_being_done_is_reported(small_results):
    steps: list[str] = []
    make_report("", read_results(small_results).cells, FAST, on_step=steps.append)
    assert steps[:2] == ["simulated, vertical: reading 1 of 2", "simulated, vertical: reading 2 of 2"]
    assert "simulated, vertical: comparison 1 of 1" in steps


def test_one_plain_engine_is_compared_with_the_varied_ones(simulation):
    made = simulation()
    made.retrieval("yottixel", 0.8)
    for bits in (500, 5000):
        made.retrieval(f"deep bits={bits}", 0.5, engine="deep", sweep={"bits": bits})
    part = make_report("", read_results(made.folder).cells, FAST).parts[0]
    assert len(table(part, "comparisons").rows) == 3
