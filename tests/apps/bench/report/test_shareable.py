"""Pages of a benchmark are made of counts: no slide, patient, centre, folder or user is in any of them."""


def test_no_identity_is_in_a_report_or_leaderboard(simulation, tmp_path, slideseek):
    made = simulation("CANARY-folder")
    made.slides = [
        (f"CANARY-{slide}", f"CANARY-{patient}", site, label, f"CANARY-{center}")
        for slide, patient, site, label, center in made.slides
    ]
    lost = {made.slides[0][0]: "CANARY-cause /home/CANARY"}
    made.retrieval("yottixel", 0.8, not_encoded=lost)
    made.retrieval("mean", 0.5, not_encoded=lost)
    made.classification("svm", 0.7)
    (made.folder / "bench.toml").write_text('title = "Simulated"')
    out = tmp_path / "out"
    for run in (("report", made.folder, "-o", out), ("leaderboard", made.folder, "-o", out / "board.html")):
        done = slideseek("bench", *run)
        assert done.code == 0, done.err
    files = [path for path in out.rglob("*") if path.is_file()]
    assert len(files) > 5 and any("CANARY" in path.read_text() for path in made.folder.rglob("hits.csv"))
    assert [path.name for path in files if b"CANARY" in path.read_bytes() + path.name.encode()] == []
    assert [path.name for path in files if str(tmp_path).encode() in path.read_bytes()] == []
