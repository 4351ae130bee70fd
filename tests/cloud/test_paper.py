"""The paper's experiment as one command: its plan, and a run on generated DICOM series in S3."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from servers import dicom_levels

from bench.servers import DaskCluster
from slideseek_apps.bench.datasets.tcga_names import SITE_GROUPS
from slideseek_apps.bench.paper_plan import Rate, plan_paper
from slideseek_apps.bench.paper_slides import PAPER_TEST_SLIDES, STATED_TEST_SLIDES, paper_slides, subtypes
from slideseek_apps.cluster import packed_work

Put = Callable[[str, bytes], str]
SMALL = """
[[engine]]
name       = "yottixel"
selector   = { use = "mosaic", size = 64, mpp = 1.0, percent = 15 }
featurizer = { use = "colour-texture" }
encoder    = { use = "yottixel" }
index      = { use = "hamming" }
"""


def test_the_papers_counts_are_those_of_its_table() -> None:
    assert {code for codes in SITE_GROUPS.values() for code in codes} == set(PAPER_TEST_SLIDES)
    assert sum(PAPER_TEST_SLIDES.values()) == STATED_TEST_SLIDES[1] and len(subtypes()) == 29


def test_the_plan_of_the_real_manifest_states_where_it_differs(slideseek: Any) -> None:
    pytest.importorskip("idc_index_data", reason="needs slideseek[idc]")
    plan = slideseek("bench", "paper", "--plan", "--nodes", "4", "--rate", "10", "--json").json
    assert len(plan["rows"]) == 29 and len({row["site"] for row in plan["rows"]}) == 10
    assert plan["slides"] == sum(row["slides"] for row in plan["rows"]) > 9000 and plan["bytes"] > 10**13
    assert plan["hours"] == pytest.approx(plan["slides"] / 40)
    assert any("its text says 3,761, its caption 3,770" in note for note in plan["notes"])
    assert any("differ by more than a tenth" in note for note in plan["notes"])
    shown = slideseek("bench", "paper", "--plan")
    assert "Pulmonary" in shown.out and "hours   unknown" in shown.out and "BRCA" in shown.err


def test_a_trial_takes_slides_of_different_patients(tmp_path: Path) -> None:
    rows = [f"{code}{n},s3://b/{code}{n},P{n // 2},TCGA-{code}" for code in ("LUAD", "LUSC", "BRCA") for n in range(4)]
    listed = tmp_path / "m.csv"
    listed.write_text("\n".join(["slide_id,path,case_id,project_id", *rows]))
    taken = paper_slides(listed, each=2)
    assert [record.id for record in taken.records] == ["LUAD0", "LUAD2", "LUSC0", "LUSC2"]
    assert {record.site for record in taken.records} == {"Pulmonary"}
    plan = plan_paper(taken, 2, Rate(8.0, "as given"), done=2)
    assert plan.hours == pytest.approx(2 / 16) and plan.sized == 0 and "BRCA 4" in plan.notes[0]


@pytest.fixture
def workers(s3: Put, tmp_path: Path) -> Iterator[DaskCluster]:
    """Two Dask workers that see the S3 server, and their scheduler."""
    pytest.importorskip("distributed", reason="needs slideseek[dask]")
    cluster = DaskCluster(tmp_path)
    try:
        cluster.wait()
        yield cluster
    finally:
        cluster.close()


@pytest.mark.slow
def test_from_manifest_to_page_on_dicom_series_in_s3_through_two_dask_workers(
    s3: Put, workers: DaskCluster, slideseek: Any, texture: Callable[..., np.ndarray], tmp_path: Path
) -> None:
    rows = ["slide_id,path,case_id,project_id"]
    for number in range(12):
        code = ("LUAD", "LUSC", "KIRC", "KIRP")[number % 4]
        folder = f"tcga-dicom/{number:08d}-0000-0000-0000-000000000000"
        image = texture(number, coarse=number % 2 == 0, side=384)
        for level, one in enumerate(dicom_levels(image, 1.0, f"P{number // 4}-{code}")):
            s3(f"{folder}/{level}.dcm", one)
        rows.append(f"TCGA-{number},s3://{folder}/*,P{number // 4}-{code},TCGA-{code}")
    listed = tmp_path / "series.csv"
    listed.write_text("\n".join(rows))
    archive, page, config = tmp_path / "paper", tmp_path / "table1.html", tmp_path / "small.toml"
    config.write_text(f'{SMALL}\n[executor]\nuse = "dask"\nscheduler_file = "{workers.file}"\nwait = 60\n')
    slideseek("init", archive, "--config", config)
    command = ("bench", "paper", "-a", archive, "--manifest", listed, "--quick", "--report", page)
    done = slideseek(*command)
    assert done.code == 0, done.err + done.out
    assert "12 slides" in done.out and "7 run" in done.out
    made = workers.client.run(packed_work._engine.cache_info)
    assert len(made) == 2 and all(one[1] for one in made.values()), "both workers made the engine, so did slides"
    text = page.read_text()
    for engine in ("yottixel", "c-gmm-fv", "c-deep-fv", "c-deep-sfv", "c-deep-bfv", "c-deep-sbfv", "recommended"):
        assert engine in text
    assert all(code in text for code in ("LUAD", "LUSC", "KIRC", "KIRP", "Pulmonary"))
    again = slideseek(*command)
    assert again.code == 0 and "0 run, 7 done before" in again.out and "slides per hour" in again.out
    assert "measured on 12 slide(s)" in again.out
    local = tmp_path / "local"
    slideseek("init", local, "--config", config)
    slideseek("add", "--manifest", listed, "-a", local)
    assert slideseek("build", "--executor", "local", "-a", local).code == 0
    assert stored_codes(local) == stored_codes(archive), "the bytes of a build in one process"


def stored_codes(archive: Path) -> dict[str, str]:
    """Return the SHA-256 of every stored result, by its key."""
    with closing(sqlite3.connect(archive / "catalog.sqlite")) as catalogue:
        return dict(catalogue.execute("SELECT key, sha256 FROM payloads WHERE kind IN ('patches', 'features')"))
