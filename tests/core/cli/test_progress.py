"""The bar of a build: counts and time stay in sight whatever the slides are called; slides are counted once."""

import io
import re

import pytest
from rich.console import Console

from slideseek.building.reporting import Outcome, SlideReport
from slideseek.cli.progress import BarReporter, LineReporter

TCGA = "TCGA-A1-A0SB-01Z-00-DX1.B34C267B-CAAA-4AB6-AD5C-276C26F997A1"


def terminal(width):
    return Console(file=io.StringIO(), width=width, height=20, force_terminal=True)


def shown(reporter, console):
    with console.capture() as capture:
        console.print(reporter._progress.get_renderable())
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capture.get())
    return [line for line in plain.splitlines() if line.strip()]


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", ["features", "codes of an-engine-with-quite-a-long-name"])
def test_long_slide_ids_do_not_push_the_rest_away(width, name):
    console = terminal(width)
    reporter = BarReporter(console)
    reporter.phase(name, 1234)
    reporter.slide(SlideReport("first", "ok"))
    reporter.begin(TCGA)
    (line,) = shown(reporter, console)
    assert name[:8] in line and "━" in line and "1/1234" in line
    assert "1 ok  0 skipped  0 failed left -:--:--" in line
    assert "TCG" in line and "…" in line
    assert len(line.rstrip()) <= width - 4, "there is room for the terminal's ^C"


def test_markup_in_an_id_is_an_id():
    console = terminal(120)
    reporter = BarReporter(console)
    reporter.phase("features", 3)
    reporter.begin("[bold]x[/]")
    assert "[bold]x[/]" in shown(reporter, console)[0]


def test_something_moves_while_components_load():
    console = terminal(80)
    reporter = BarReporter(console)
    reporter.loading("engines")
    assert "loading engines" in shown(reporter, console)[0]
    reporter.phase("features", 3)
    assert not any("loading" in line for line in shown(reporter, console))


def test_losses_are_shown_and_cut():
    console = terminal(80)
    reporter = BarReporter(console)
    reporter.epoch("deep", {"epoch": 3, "epochs": 10, "loss": 0.12345, **{f"part{n}": 0.5 for n in range(9)}})
    (line,) = shown(reporter, console)
    assert "fit deep" in line and " 3/10" in line and "loss 0.1" in line


def test_a_finished_training_makes_room():
    console = terminal(80)
    reporter = BarReporter(console)
    reporter.epoch("one", {"epoch": 10, "epochs": 10})
    reporter.epoch("two", {"epoch": 1, "epochs": 10})
    (line,) = shown(reporter, console)
    assert "fit two" in line


@pytest.mark.parametrize("make", [LineReporter, lambda: BarReporter(terminal(80))], ids=["lines", "bar"])
def test_a_slide_counts_once_by_how_it_ends(make):
    reporter = make()
    reporter.phase("features", 4)
    first: dict[str, Outcome] = {"a": "ok", "b": "ok", "c": "skipped", "d": "failed"}
    for name, outcome in first.items():
        reporter.slide(SlideReport(name, outcome, "why", "do this"))
    reporter.phase("codes of x", 3)
    second: dict[str, Outcome] = {"a": "ok", "b": "failed", "c": "ok"}
    for name, outcome in second.items():
        reporter.slide(SlideReport(name, outcome, "why", "do this"))
    assert reporter.counts == {"ok": 1, "skipped": 1, "failed": 2}


def test_both_reporters_tell_a_failure_in_the_same_words(capsys):
    console = terminal(80)
    for reporter in (LineReporter(), BarReporter(console)):
        reporter.phase("features", 1)
        reporter.slide(SlideReport("a", "failed", "why", "do this"))
    assert capsys.readouterr().err == "failed  features 1/1  a: why -> do this\n"
    assert console.file.getvalue() == "failed  a: why -> do this\n"


def test_a_terminal_that_was_closed_does_not_stop_the_work(monkeypatch):
    class Gone(io.StringIO):
        def write(self, text):
            raise OSError(5, "Input/output error")

        def isatty(self):
            return True

    monkeypatch.setattr("sys.stderr", Gone())
    with BarReporter() as reporter:
        reporter.phase("features", 1)
        reporter.slide(SlideReport("a", "failed", "why"))
    assert reporter.counts["failed"] == 1
