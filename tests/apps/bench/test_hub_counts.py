"""Hubs of a benchmark: fair shares under masks, the file of a cell, and the table of a report."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from slideseek.errors import SlideseekError
from slideseek_apps.bench.hub_counts import Candidates, hubs, read_candidates, write_candidates
from slideseek_apps.bench.ranked_lists import QueryHits, RankedHit
from slideseek_apps.bench.report.assemble import make_report
from slideseek_apps.bench.report.settings import ReportSettings
from slideseek_apps.bench.results import CANDIDATES, read_results


def test_shares_follow_the_number_of_candidates() -> None:
    counted = Candidates({"a": 5, "b": 6, "c": 7})
    counted.count(["a", "b"], 3)
    counted.count(["a", "b", "c"], 2)
    assert counted.fair(1) == pytest.approx({"a": 3 / 2 + 2 / 3, "b": 3 / 2 + 2 / 3, "c": 2 / 3})
    assert counted.fair(5) == {"a": 5.0, "b": 5.0, "c": 2.0}, "a list holds each candidate at most once"


def test_only_the_first_k_hits_count() -> None:
    counted = Candidates({"a": 5, "b": 6})
    counted.count(["a", "b"], 2)
    lists = [QueryHits(f"q{i}", "x", (RankedHit("a", "x"), RankedHit("b", "x"))) for i in range(2)]
    first, both = hubs(lists, counted, 1), hubs(lists, counted, 2)
    assert first is not None and (first.hub, first.largest, first.never) == ("a", 2.0, 1)
    assert both is not None and both.largest == 1.0 and both.never == 0


def test_counts_read_back(tmp_path: Path) -> None:
    counted = Candidates({"a": 5, "b": 6}, Counter({("a", 2): 3, ("b", 2): 3, ("a", 1): 1}))
    write_candidates(tmp_path / CANDIDATES, counted)
    assert read_candidates(tmp_path / CANDIDATES) == counted
    (tmp_path / CANDIDATES).write_text("slide_id,patches,candidates,queries\na,5,two,1\n")
    with pytest.raises(SlideseekError, match="line 2: counts must be whole numbers"):
        read_candidates(tmp_path / CANDIDATES)


def test_a_run_counts_candidates_and_its_report_shows_hubs(run_with, tmp_path: Path) -> None:
    protocol = [{"name": "within", "mode": "vertical", "k": 5}]
    run_with(None, {"use": "yottixel"}, protocol=protocol, seeds=[0])
    results = read_results(tmp_path / "out")
    (cell,) = results.cells
    counted = cell.candidates()
    assert counted is not None
    # 24 slides of 12 patients in two sites: each is searched for among the 10 slides of its site's other patients.
    assert {number for _, number in counted.chances} == {10} and sum(counted.fair(3).values()) == pytest.approx(24 * 3)
    assert all(4 <= number < 8 for number in counted.patches.values())
    report = make_report("x", results.cells, ReportSettings(resamples=100, permutations=99))
    table = next(table for table in report.parts[0].tables if table.key == "hubs")
    skew, largest, never, size = (getattr(entry, "value", entry) for entry in table.rows[0].entries)
    measured = hubs(cell.hits(), counted, 3)
    assert measured is not None and measured.size is not None
    assert (skew, largest, size) == pytest.approx((measured.skew, measured.largest, measured.size))
    assert never == pytest.approx(100 * measured.never / 24)
    (cell.folder / CANDIDATES).unlink()  # as written by an earlier version
    old = make_report("x", read_results(tmp_path / "out").cells, ReportSettings(resamples=100, permutations=99))
    assert not any(table.key == "hubs" for table in old.parts[0].tables)
