"""A failure that was accepted does not fail a build, is not tried again, and comes back when something changes."""

import pytest


@pytest.fixture
def failing(tiny_archive, tiny_slides, slideseek):
    """The tiny archive, with a slide that is cut off."""
    (tiny_slides / "s4.png").write_bytes((tiny_slides / "s4.png").read_bytes()[:2000])
    assert slideseek("build", "-a", tiny_archive).code == 3
    return tiny_archive


def test_it_is_listed_and_not_tried_again(failing, slideseek, monkeypatch):
    from slideseek.building import slide_work

    assert slideseek("build", "-a", failing).code == 3
    done = slideseek("acknowledge", "s4", "--reason", "the scanner stopped", "-a", failing)
    assert done.code == 0 and "known   s4: " in done.out
    tried = []
    monkeypatch.setattr(slide_work, "open_slide", lambda path, *more: tried.append(path))
    built = slideseek("build", "-a", failing, "--json")
    assert built.code == 0 and built.json["slides"] == {"ok": 0, "skipped": 7, "failed": 0, "known": 1}
    assert built.json["failures"] == {} and "known: the scanner stopped" in built.json["known"]["s4"] and not tried
    assert "known   features 8/8  s4: " in built.err
    status = slideseek("status", "-a", failing)
    assert "known   s4 (select): " in status.out and "(the scanner stopped)" in status.out


def test_it_is_tried_again_when_the_slide_or_the_settings_change(failing, tiny_slides, slideseek, paint_tiny):
    slideseek("acknowledge", "--all", "-a", failing)
    config = (failing / "slideseek.toml").read_text()
    (failing / "slideseek.toml").write_text(config.replace("min_tissue = 0.5", "min_tissue = 0.4"))
    assert list(slideseek("build", "-a", failing, "--json").json["failures"]) == ["s4"]
    (failing / "slideseek.toml").write_text(config)
    assert slideseek("build", "-a", failing).code == 0
    paint_tiny(tiny_slides / "s4.png", 4, True)
    assert slideseek("build", "-a", failing, "--json").json["slides"] == {"ok": 1, "skipped": 7, "failed": 0}


def test_undoing_and_mistakes(failing, slideseek):
    slideseek("acknowledge", "s4", "-a", failing)
    assert slideseek("acknowledge", "s4", "--undo", "-a", failing).code == 0
    assert slideseek("build", "-a", failing).code == 3
    for wrong, said in (((), "name slides"), (("s1",), "has not failed"), (("s44",), "did you mean 's4'?")):
        refused = slideseek("acknowledge", *wrong, "-a", failing)
        assert refused.code == 2 and said in refused.err
