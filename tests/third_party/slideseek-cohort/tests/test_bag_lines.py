"""The kind of data reads JSON lines, and names the lines it cannot use."""

import json
from pathlib import Path

import pytest
from slideseek_cohort import plugin
from slideseek_cohort.bag_lines import BagLines

from slideseek.errors import SlideseekError
from slideseek.plugins import load_registry
from slideseek_apps.bench.datasets import RecognisingAdapter, guess_kind, load_dataset

REGISTRY = load_registry(extra=[("under-test", plugin)], disabled=["slideseek-cohort"], kinds=("dataset",))


def write(path: Path, *slides: object) -> Path:
    path.write_text("".join(f"{slide if isinstance(slide, str) else json.dumps(slide)}\n" for slide in slides))
    return path


def test_registered() -> None:
    assert REGISTRY.load("dataset", "bag-jsonl") is BagLines
    assert issubclass(BagLines, RecognisingAdapter)


def test_lines_become_slides(tmp_path: Path) -> None:
    one = {"slide_id": "a", "patient": "p", "site": "lung", "label": "x", "split": "test", "features": [[1, 2], [3, 4]]}
    two = {"slide_id": "b", "label": "y", "features": [[5.5, 6]]}
    path = write(tmp_path / "toy.jsonl", one, "", two)
    assert guess_kind(path, REGISTRY, print) == "bag-jsonl"
    data = load_dataset("bag-jsonl", {"path": "toy.jsonl", "site": "colon"}, tmp_path, REGISTRY)
    assert [(r.id, r.patient, r.site, r.label, dict(r.fields)) for r in data.records] == [
        ("a", "p", "lung", "x", {"split": "test"}),
        ("b", "b", "colon", "y", {}),
    ]
    assert data.bags["a"].features.tolist() == [[1, 2], [3, 4]]
    assert not data.problems


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "Expecting property name"),
        ("[1]", "list indices must be integers"),
        ({"slide_id": "b"}, "'features'"),
        ({"slide_id": "b", "features": [1, 2]}, "one list of numbers per patch"),
        ({"slide_id": "b", "features": [["x"]]}, "could not convert"),
        ({"features": [[1]]}, "slide_id"),
    ],
)
def test_a_line_that_is_not_a_slide_is_a_problem_and_the_rest_is_used(tmp_path: Path, line: object, why: str) -> None:
    path = write(tmp_path / "toy.jsonl", {"slide_id": "a", "features": [[1.0]]}, line)
    source = BagLines(path).load(REGISTRY)
    assert [record.id for record in source.records] == ["a"]
    (problem,) = source.problems
    assert problem.subject == "toy.jsonl, line 2"
    assert why in problem.cause


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SlideseekError, match=r"nothing\.jsonl cannot be read"):
        BagLines(tmp_path / "nothing.jsonl").load(REGISTRY)
