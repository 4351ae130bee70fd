"""`slideseek status` of an archive of thousands of slides fits a screen."""

from typing import Any

import pytest
from click.testing import CliRunner

from slideseek.cli import status as module


def slide(number, failed=False):
    site, label = f"site-{number % 7}", f"diagnosis-{number % 40}"
    failure = {"stage": "select", "cause": "no tissue", "fix": "look at it"} if failed else None
    state = "failed" if failed else "done"
    more = {"fields": {}, "measured": {}, "known": None, "file": "ok", "failure": failure}
    return {"id": f"s{number}", "patient": f"p{number // 2}", "site": site, "label": label, **more} | {
        "engines": {"bars": {"state": state}}
    }


@pytest.fixture
def archive(monkeypatch):
    """An archive of 6,000 slides, 100 of which failed."""
    slides = [slide(number, failed=number % 60 == 0) for number in range(6000)]
    counts = {"coded": 5900, "indexed": 5900}
    engine: dict[str, Any] = {"name": "bars", "error": None, "index_fresh": True, **counts, "changed": []}

    class Opened:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            return None

        def status(self):
            return {"slides": slides, "engines": [engine | {"bytes_per_slide": 625.0}], "copies": []}

    monkeypatch.setattr("slideseek.api.open_archive", lambda folder: Opened())


def test_six_thousand_slides_fit_one_screen(archive):
    done = CliRunner().invoke(module.command, [])
    lines = done.output.splitlines()
    assert done.exit_code == 0 and len(lines) <= 40 and max(map(len, lines)) <= 100
    assert any(line.split()[:4] == ["all", "6,000", "3,000", "100"] for line in lines)
    assert "262 more" in done.output and "100 slides failed; the first 5" in done.output


def test_all_slides_are_listed_on_request(archive):
    done = CliRunner().invoke(module.command, ["--all"])
    assert "s5999" in done.output and done.output.count("no tissue") == 100
