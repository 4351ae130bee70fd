"""The doctor's line on hubs: a warning with a fix where one slide is found by all, and none in a small archive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slideseek.archive.archive import Archive
from slideseek.searching.searcher import Searcher
from slideseek_apps.doctor import hub_health
from slideseek_apps.doctor.finding import Finding
from slideseek_apps.doctor.hub_health import look_for_hubs
from slideseek_components.indexes.hamming import Hamming


def lines(root: Path, name: str) -> list[Finding]:
    with Archive(root) as archive:
        return list(look_for_hubs(archive, Searcher.open(archive, name).engine, "x"))


def test_a_small_archive_has_no_line(tiny_archive: Path) -> None:
    assert lines(tiny_archive, "bars") == []


def test_an_even_archive_is_well(tiny_archive: Path, slideseek: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_health, "LEAST_SLIDES", 4)
    monkeypatch.setattr(hub_health, "SIZE", 1.0)
    (found,) = lines(tiny_archive, "bars")
    assert found.state == "ok" and "of 8 lists of 10" in found.detail and "skew" in found.detail
    done = slideseek("doctor", tiny_archive, "--json")
    assert any(one["name"] == "hubs" for one in done.json["findings"])


def test_a_hub_is_a_warning_with_a_fix(tiny_archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LEAST_SLIDES", 4), ("HITS", 1), ("OFTEN", 3), ("LARGEST", 2.0), ("SIZE", 1.0)):
        monkeypatch.setattr(hub_health, name, value)
    near = Hamming.near

    def biased(self: Hamming, *given: Any) -> Any:
        """Put one slide before all others."""
        hub = self.store_.slot_ids.index("s1")
        return [(slots, np.where(slots == hub, -1.0, far)) for slots, far in near(self, *given)]

    monkeypatch.setattr(Hamming, "near", biased)
    (found,) = lines(tiny_archive, "bars")
    assert found.state == "warn" and "s1 is in" in found.detail and "centring" in found.fix


def test_the_time_is_bounded(tiny_archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_health, "LEAST_SLIDES", 4)
    monkeypatch.setattr(hub_health, "SECONDS", -1.0)
    assert lines(tiny_archive, "bars") == [], "no query was run"
