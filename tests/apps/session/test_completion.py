"""What TAB offers, and the toolbar."""

from types import SimpleNamespace
from typing import Any

import pytest

from slideseek.types import Hit, SlideRecord
from slideseek_apps.session.command_parser import CommandParser
from slideseek_apps.session.completion import suggestions
from slideseek_apps.session.prompt import toolbar
from slideseek_apps.session.search_session import Session
from slideseek_apps.session.terminal_pictures import Pictures


@pytest.fixture
def session():
    archive: Any = SimpleNamespace(root=SimpleNamespace(name="mine"))
    session = Session(archive, "bars", lambda text: None)
    records = [
        SlideRecord("s1", "", "p1", "colon", "fine", fields={"Tumor Stage": "II"}),
        SlideRecord("s 2", "", "p2", "lung", "coarse", fields={"Tumor Stage": "IV"}),
    ]
    session.__dict__.update(records={record.id: record for record in records}, engines=("bars", "mean"))
    hits = [SimpleNamespace(rank=1, hit=Hit("s 2", 1.0))]
    asked: Any = SimpleNamespace(answer=SimpleNamespace(found=hits))
    session.asked = asked
    return session


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("se", ["search"]),
        ("search S", ["s1", '"s 2"']),
        ("search s1 --pa", ["--patch", "--patient"]),
        ("where si", ["site="]),
        ("where site=", ["colon", "lung"]),
        ("where site!=l", ["lung"]),
        ("where tumor", ["Tumor Stage="]),
        ("where Tumor Stage=I", ["II", "IV"]),
        ("engine ", ["bars", "mean"]),
        ("show 1", ["1"]),
        ("mark 1 r", ["relevant"]),
        ("more l", ["like these"]),
        ("same-patient ", ["on", "off"]),
        ("help ma", ["mark"]),
        ("k ", []),
        ("nonsense x", []),
    ],
)
def test_offers(session, line, offered):
    found = list(suggestions(session, CommandParser(Pictures("none")), line))
    assert [one.text for one in found] == offered
    assert all(line.endswith(line[len(line) - one.length :]) and one.length <= len(line) for one in found)


def test_files_are_offered_where_a_file_is_wanted(session, tmp_path, monkeypatch):
    (tmp_path / "hits.csv").touch()
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path)
    parser = CommandParser(Pictures("none"))
    assert [one.text for one in suggestions(session, parser, "export ")] == ["deep/", "hits.csv"]
    assert [one.text for one in suggestions(session, parser, "explain 1 h")] == ["hits.csv"]


def test_the_toolbar_says_how_the_next_search_would_be_done(session):
    session.where.append("site=lung")
    session.marks.update({"s1": True, "s2": False})
    session.same_patient = True
    (part,) = toolbar(session)
    text = part[1]
    assert text == " mine: engine bars | k 5 | horizontal | own patient included | site=lung | marked 1 relevant, 1 not"
