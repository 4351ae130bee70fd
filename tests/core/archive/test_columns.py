"""Columns of slides: masks equal to asking every record."""

from typing import Any

import numpy as np
import pytest

from slideseek.archive.catalog import Catalog
from slideseek.archive.slide_table import SlideColumns, SlideRow
from slideseek.searching.filters import parse_filter
from slideseek.types import Filter, SlideRecord


@pytest.fixture
def slides(tmp_path):
    catalog = Catalog(tmp_path / "catalog.sqlite", create=True)
    rng = np.random.default_rng(0)
    with catalog.transaction():
        for number in range(200):
            fields = {"age": str(rng.integers(20, 90))} | ({"stage": "IV"} if number % 3 == 0 else {})
            names = (f"{what}{rng.integers(5)}" if number % 7 else "" for what in ("p", "site", "label", "c"))
            patient, site, label, center = names
            record = SlideRecord(
                f"s{number:03d}", "x", patient, site, label, center, mpp=float(rng.random()), fields=fields
            )
            catalog.slides.put(SlideRow(record, f"f{number}", 1, 1))
    yield catalog.slides
    catalog.close()


def test_masks_are_those_of_the_records(slides):
    records = {row.id: row.record for row in slides}
    ids = tuple(np.random.default_rng(1).permutation(sorted(records))[:150].tolist())
    columns = SlideColumns(slides, ids)
    assert columns.free_names == ("age", "stage")
    for name in ("patient", "site", "label", "center"):
        for values in ([], [""], ["p1", "site2", "c3"], ["nothing"]):
            expected = [getattr(records[i], name) in values for i in ids]
            assert columns.among(name, values).tolist() == expected
    assert columns.those([ids[3], "unknown", ids[9]]).nonzero()[0].tolist() == [3, 9]
    for text in ("age>=50", "stage=IV", "stage!=IV", "label in label1,label2", "id>=3", "id=s005", "center!=c1"):
        condition = parse_filter(text, columns.free_names)
        expected = [condition(records[i]) for i in ids]
        assert columns.passing(condition).tolist() == expected, text


def test_no_slides_no_masks(slides):
    columns = SlideColumns(slides, ())
    assert columns.among("site", ["a"]).shape == (0,)
    assert columns.passing(Filter("age", True, ">", ("1",))).shape == (0,)


def test_an_unknown_column_is_named(slides):
    with pytest.raises(ValueError, match=r"name must be one of path, .*not 'colour'"):
        SlideColumns(slides, ("s001",)).column("colour")


@pytest.mark.parametrize("count", [0, 1, 8, 9, 40])
def test_few_and_many_ids_are_found_alike(count):
    no_table: Any = None
    columns = SlideColumns(no_table, [f"s{number:02d}" for number in range(50)])
    wanted = [*(f"s{number:02d}" for number in range(count)), "unknown"]
    assert columns.those(iter(wanted)).tolist() == [number < count for number in range(50)]
